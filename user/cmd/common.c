/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/err.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "replay/chosen.h"
#include "replay/replay.h"
#include "timeline/report.h"
#include "trace/trace.h"

#define NEWER_TWO (1ull << CAP_BPF | 1ull << CAP_PERFMON)

static uint64_t rights_effective(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &head, caps) < 0)
		return 0;
	return caps[0].effective | (uint64_t)caps[1].effective << 32;
}

/*
 * Without CAP_SYS_ADMIN kernel 6.18 refuses a uprobe by either way (BPF_LINK_CREATE: EPERM, perf: EACCES), and libbpf 1.1
 * gives up when it may not list the kernel's modules for their types. On other kernels the newer two may be enough: tried.
 */
uint64_t rights_missing(void)
{
	uint64_t have = rights_effective(), need = 1ull << CAP_SYS_PTRACE;

	if ((have & NEWER_TWO) != NEWER_TWO)
		need |= 1ull << CAP_SYS_ADMIN;
	return need & ~have;
}

int rights_are_narrow(void)
{
	return !(rights_effective() & 1ull << CAP_SYS_ADMIN);
}

const char *rights_names(uint64_t missing, char *buf, size_t size)
{
	static const struct {
		unsigned bit;
		const char *name;
	} caps[] = { { CAP_SYS_ADMIN, "CAP_SYS_ADMIN" }, { CAP_SYS_PTRACE, "CAP_SYS_PTRACE" } };

	buf[0] = '\0';
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
		if (missing & 1ull << caps[i].bit)
			snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", buf[0] ? ", " : "", caps[i].name);
	return buf;
}

int rights_check(struct err *err)
{
	uint64_t missing = rights_missing();
	char names[80];

	if (!missing)
		return 0;
	err_set(err, -EPERM, "setting probes needs root; missing: %s", rights_names(missing, names, sizeof(names)));
	return err_hint(err, "run it with sudo, or give it " RIGHTS_NEEDED " "
			     "(memtrace report needs none of them)");
}

int refuse_gaps(const struct report *r, const char *path, struct err *err)
{
	if (!r->sampling.is_on)
		return 0;
	err_set(err, -EINVAL, "%.200s traces some steps only: what was allocated between them is not in it", path);
	return err_hint(err, "record without --steps and --every for this");
}

/* The device must be there: an empty file would look as if it had no memory. */
int has_device(const struct options *o, const struct report *r, struct err *err)
{
	char name[16], all[200] = "";
	size_t len = 0;

	for (size_t i = 0; r && i < r->devs_cnt; i++) {
		if (o->dev < 0 || r->devs[i].dev == o->dev)
			return 0;
		if (len < sizeof(all) - 20)
			len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", len ? ", " : "",
						dev_name(r->devs[i].dev, name));
	}
	if (o->dev < 0 || !r)
		return 0;
	err_set(err, -ENODATA, "%s has no block on %s", o->file, dev_name((uint8_t)o->dev, name));
	return len ? err_hint(err, "it has blocks on %s", all) : err_hint(err, "it has none at all");
}

struct selection selection_of(const struct options *o)
{
	return (struct selection){
		.at = o->at, .from = o->from, .to = o->to, .dev = o->dev, .category = o->category, .module = o->module,
		.op = o->op, .pids = (const uint32_t *)o->pids, .pids_cnt = o->pids_cnt, .rank = o->rank,
		.is_of_two = o->file_b != NULL,
	};
}

struct options options_of_second(const struct options *o)
{
	struct options b = *o;

	b.file = o->file_b;
	memcpy(b.pids, o->pids_b, sizeof(b.pids));
	return b;
}

int find_chosen(struct chosen *c, const struct options *o, struct err *err)
{
	struct selection asked = selection_of(o);

	return chosen__find(c, &asked, o->file, o->classes, err);
}

int loss_exit_code(const struct options *o, const struct report *r)
{
	return report_lost_events(r) > o->max_loss ? EXIT_LOST : EXIT_OK;
}

struct view_opts view_opts_of(const struct options *o)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	int is_tty = isatty(STDOUT_FILENO) && !(term && !strcmp(term, "dumb"));
	struct winsize ws = { 0 };
	struct view_opts v = {
		.top = o->top ? o->top : TOP_TEXT,
		.by = o->by,
		.depth = o->depth,
		.phase = o->phase,
		.has_by = o->has_by,
		.is_verbose = o->verbose > 0,
		.color = is_tty && !o->no_color && !(no_color && no_color[0]),
	};

	if (is_tty && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) && ws.ws_col)
		v.width = ws.ws_col > 140 ? 140 : ws.ws_col;
	return v;
}

struct outfile_how outputs_of(const struct options *o)
{
	return (struct outfile_how){ .asker = &o->asker, .force = o->force, .held = o->held };
}

size_t report_top(const struct options *o)
{
	return o->top ? o->top : o->json || o->csv ? TOP_JSON : TOP_TEXT;
}

int report_write(const struct options *o, const struct report *r, struct err *err)
{
	struct view_opts v = view_opts_of(o);
	char path[TEXT_BYTES_MAX];
	int e;

	v.path = o->file || o->out ? shell_word(path, o->file ? o->file : o->out) : NULL; /* or one that was made meanwhile */
	if (o->json || o->csv)
		v.top = report_top(o);
	e = o->json  ? view_report_json(stdout, r, &v) :
	    o->csv   ? view_report_csv(stdout, r, &v) :
	    o->md    ? view_report_md(stdout, r, &v) :
	    o->leaks ? view_leaks_text(stdout, r, &v) :
		       view_report_text(stdout, r, &v);
	return e < 0 ? err_set(err, e, "writing the report: %s", strerror(-e)) : 0;
}

const char *shell_word(char *buf, const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=@:,%";
	char safe[TEXT_BYTES_MAX];

	safe_text(safe, path);
	if (strspn(safe, plain) == strlen(safe))
		snprintf(buf, TEXT_BYTES_MAX, "%s", safe);
	else
		snprintf(buf, TEXT_BYTES_MAX, "'%.*s'", TEXT_BYTES_MAX - 3, safe);
	return buf;
}

void replay_say(const char *path, uint64_t damaged_events, const struct replay_end *end)
{
	char safe[TEXT_BYTES_MAX], bytes[24];

	if (damaged_events)
		fprintf(stderr, "memtrace: %s is damaged: %s events in its middle could not be read, the numbers are without "
			"them\n", safe_text(safe, path), fmt_count(bytes, (double)damaged_events));
	if (end->unread_bytes)
		fprintf(stderr, "memtrace: %s was cut or damaged: its last %s could not be read; the numbers cover what is "
			"whole\n", safe_text(safe, path), fmt_bytes(bytes, end->unread_bytes));
	else if (end->is_missing)
		fprintf(stderr, "memtrace: %s is still being written, or its end is missing; the numbers cover what is there\n",
			safe_text(safe, path));
}
