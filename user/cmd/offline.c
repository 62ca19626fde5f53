/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/offline.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"
#include "base/infile.h"
#include "base/outfile.h"
#include "cmd/cmd.h"
#include "keeper/confine.h"

static int is_same(const char *a, const char *b)
{
	struct stat x, y;

	return a && !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Is the output an input? The command refuses that. */
static int is_input(const struct options *o)
{
	for (size_t i = 0; i < o->files_cnt; i++)
		if (is_same(o->files[i], o->out))
			return 1;
	return is_same(o->file, o->out) || is_same(o->file_b, o->out);
}

static int hold_out(struct options *o, struct err *err)
{
	int is_named = o->cmd == CMD_EXPORT && export_format_find(o->format)->needs & EXPORT_FILE;
	struct outfile_how how = outputs_of(o);
	static struct outfile held;
	int r;

	if (!o->out || !strcmp(o->out, "-") || is_input(o))
		return 0;
	r = outfile__open(&held, o->out, is_named ? OUTFILE_NAMED : OUTFILE_WHOLE, &how, err);
	if (!r)
		r = outfile__lend(&held, err);
	if (!r)
		o->held = &held;
	return r;
}

/* As one of the recordings; keys come from there, too. */
static int hold_stdin(const struct options *o, struct err *err)
{
	unsigned cnt = (o->file && !strcmp(o->file, "-")) + (o->file_b && !strcmp(o->file_b, "-"));

	for (size_t i = 0; i < o->files_cnt; i++)
		cnt += !strcmp(o->files[i], "-");
	if (cnt > 1)
		return err_set(err, -EINVAL, "standard input (-) can be one recording, not two");
	if (cnt && o->tui)
		return err_set(err, -EINVAL, "--tui takes its keys from standard input: name a file in place of -");
	return cnt ? infile_hold_stdin(err) : 0;
}

static int hold_files(struct options *o, struct err *err)
{
	if (o->file)
		infile_hold(o->file);
	if (o->file_b)
		infile_hold(o->file_b);
	for (size_t i = 0; i < o->files_cnt; i++)
		infile_hold(o->files[i]);
	return hold_out(o, err);
}

/* The user who runs a program with the s bit. */
static int be_who_we_are(struct err *err)
{
	if ((geteuid() != getuid() || getegid() != getgid()) &&
	    (setresgid(getgid(), getgid(), getgid()) < 0 || setresuid(getuid(), getuid(), getuid()) < 0))
		return err_set(err, -errno, "giving away rights: %s", strerror(errno));
	return 0;
}

/* Commands whose data may not fit into memory. */
static int spools(const struct options *o)
{
	switch (o->cmd) {
	case CMD_EXPORT:
	case CMD_MCP:
		return 1;
	case CMD_DIFF:
		return diff_spools(o);
	case CMD_REPORT:
		return is_filtered(o);
	default:
		return 0;
	}
}

/*
 * Only beside its output, or, if root has opened that, to the file that SQLite opens again. Spools
 * are placed as tmpfile() and SQLite do.
 */
int offline_confine(const struct options *o, struct err *err)
{
	const char *writes[5];
	char *room = NULL;
	size_t cnt = 0;
	int r;

	if (o->held && o->held->part)
		room = strdup(o->held->part);
	else if (!o->held && o->out && strcmp(o->out, "-"))
		room = outfile_room(o->out);
	if (room)
		writes[cnt++] = room;
	if (spools(o)) {
		const char *const places[] = { getenv("SQLITE_TMPDIR"), getenv("TMPDIR"), "/var/tmp", "/tmp" };

		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
			if (places[i])
				writes[cnt++] = places[i];
	}
	r = o->cmd == CMD_MCP ? confine_starter(writes, cnt, err) : confine_reader(writes, cnt, err);
	free(room);
	return r;
}

int offline_drop(struct options *o, struct err *err)
{
	int r = 0;

	if (o->cmd != CMD_REPORT && o->cmd != CMD_EXPORT && o->cmd != CMD_DIFF && o->cmd != CMD_MERGE &&
	    o->cmd != CMD_ESTIMATE && o->cmd != CMD_CHECK && o->cmd != CMD_MCP)
		return 0;
	(void)signal(SIGXFSZ, SIG_IGN); /* exceeding the file size limit gives an error instead of a signal */
	r = o->cmd == CMD_MCP ? 0 : hold_stdin(o, err);
	if (r < 0)
		return r;
	if (!getuid() && !geteuid() && !o->asker.is_other) {
		r = o->cmd == CMD_MCP ? 0 : hold_files(o, err); /* that one's files may be others at each call */
	} else {
		privs_drop_bounds(0);
		r = asker__become(&o->asker, err);
	}
	if (!r)
		r = be_who_we_are(err);
	return r < 0 ? r : offline_confine(o, err);
}
