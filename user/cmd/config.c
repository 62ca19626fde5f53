/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "config"
#include "cmd/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "cmd/options_table.h"
#include "cmd/words.h"

/* Options of one run, or that would replace a file, are only typed. */
static const char *const typed[] = { "--pid",  "--name", "--all-jobs", "--output", "--force", "--user",
				     "--help", "--version", "--man",    "--no-config" };

struct config_place {
	const char *path;
	unsigned line;
};

static int wrong(const struct config_place *at, struct err *err, const char *what, const char *name)
{
	return err_set(err, -EINVAL, "%s:%u: %s '%.100s'", at->path, at->line, what, name);
}

static int is_typed(const char *name)
{
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++)
		if (!strcmp(typed[i], name))
			return 1;
	return 0;
}

/* --- a line ---------------------------------------------------------------------------------------------- */

static char *trimmed(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text + strspn(text, " \t");
}

/* yes and no of options without a value; 1, 0, or -1: neither. */
static int yes_or_no(const char *value)
{
	return !strcmp(value, "yes") ? 1 : !strcmp(value, "no") ? 0 : -1;
}

static int apply(struct options *o, const struct option_def *d, const char *value, const struct config_place *at,
		 struct err *err)
{
	struct err why = { 0 };
	int is_yes = yes_or_no(value), r;

	if (!d->arg && is_yes < 0) {
		wrong(at, err, "yes or no, not", value);
		return err_hint(err, "%s = yes is %s on the command line", d->name + 2, d->name), -EINVAL;
	}
	if ((!d->arg || option_value_is_optional(d)) && !is_yes)
		return 0;
	r = d->parse(o, d->arg && !(option_value_is_optional(d) && is_yes == 1) ? value : NULL, &why);
	if (r >= 0)
		return 0;
	err_set(err, -EINVAL, "%s:%u: %s: %s", at->path, at->line, d->name + 2, why.msg);
	if (why.hint[0])
		err_hint(err, "%s", why.hint);
	return -EINVAL;
}

static int unknown(const char *name, const struct config_place *at, struct err *err)
{
	struct nearest n;

	wrong(at, err, "unknown option", name);
	nearest__init(&n, name);
	for (const struct option_def *d = option_defs; d->name; d++)
		nearest__try(&n, d->name + 2);
	if (nearest__get(&n))
		err_hint(err, "did you mean %s?", nearest__get(&n));
	else
		err_hint(err, "options by their long names, without --; --no-config reads none");
	return -EINVAL;
}

/* A name may have several rows, one for each group of commands: a value is checked by the row of this one alone. */
static int take_line(struct options *o, char *text, const struct config_place *at, struct err *err)
{
	char *name = trimmed(text), *eq, *value, full[64];
	int is_known = 0, r = 0;

	if (!name[0] || name[0] == '#')
		return 0;
	eq = strchr(name, '=');
	if (!eq) {
		wrong(at, err, "no '=' in", name);
		return err_hint(err, "lines are option = value; of options without one, option = yes"), -EINVAL;
	}
	*eq = '\0';
	value = trimmed(eq + 1);
	name = trimmed(name);
	snprintf(full, sizeof(full), "--%.60s", name);
	for (const struct option_def *d = option_defs; d->name && !r; d++) {
		if (strcmp(d->name, full))
			continue;
		is_known = 1;
		if (d->cmds & (1u << o->cmd) && !is_typed(full))
			r = apply(o, d, value, at, err);
	}
	if (!is_known)
		return unknown(name, at, err);
	if (is_typed(full)) {
		wrong(at, err, "only on the command line:", name);
		return err_hint(err, "it is about one run"), -EINVAL;
	}
	return r;
}

/* --- files ------------------------------------------------------------------------------------------------ */

static const char *why_not(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "it is no file";
	if (st->st_uid && st->st_uid != geteuid())
		return "it belongs to another user";
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return "its group or others may write it";
	return st->st_size > CONFIG_BYTES_MAX ? "it is larger than 64 KiB" : NULL;
}

/* -1: there is none that may be used. */
static int open_own(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *why = NULL;
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return -1;
	if (fd < 0 || fstat(fd, &st) < 0)
		why = strerror(errno);
	else
		why = why_not(&st);
	if (!why)
		return fd;
	log_warn("%s is not read: %s", path, why);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Of one file, which need not be there. */
static int config_read_file(struct options *o, const char *path, struct err *err)
{
	struct config_place at = { .path = path };
	int fd = open_own(path), r = 0;
	char *text, *line;
	ssize_t n;

	if (fd < 0)
		return 0;
	text = calloc(1, CONFIG_BYTES_MAX + 2); /* options point into it until the end */
	n = text ? read(fd, text, CONFIG_BYTES_MAX + 1) : -1;
	close(fd);
	if (n < 0 || n > CONFIG_BYTES_MAX || memchr(text, '\0', (size_t)n)) {
		free(text);
		return err_set(err, -EINVAL, "%s: not a file of lines", path);
	}
	for (char *rest = text; !r && (line = strsep(&rest, "\n"));) {
		at.line++;
		r = take_line(o, line, &at, err);
	}
	o->config[o->config_cnt < 2 ? o->config_cnt++ : 1] = text;
	return r;
}

/*
 * Under sudo the environment is another user's: its variables may name any file of root's, and an error would show the content.
 * Then only /etc's defaults are read.
 */
static int environment_is_anothers(void)
{
	return !geteuid() && getenv("SUDO_UID") && strcmp(getenv("SUDO_UID"), "0") != 0;
}

int config_read(struct options *o, struct err *err)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char path[PATH_MAX];
	int r = config_read_file(o, CONFIG_SYSTEM, err);

	path[0] = '\0';
	if (xdg && xdg[0] == '/')
		snprintf(path, sizeof(path), "%.4000s/memtrace/config", xdg);
	else if (home && home[0] == '/')
		snprintf(path, sizeof(path), "%.4000s/.config/memtrace/config", home);
	if (!r && path[0] && !environment_is_anothers())
		r = config_read_file(o, path, err);
	o->has_by = o->has_stack_size = 0; /* a default was not asked for: it excludes no other option */
	return r;
}
