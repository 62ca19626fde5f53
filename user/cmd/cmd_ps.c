/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* ps: the processes that can be traced; also for --name, and for `memtrace` alone on a terminal. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/capabilities.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "live/survey.h"
#include "target/kin.h"
#include "view/tables/jobs.h"
#include "view/tui/pick.h"
#include "view/tui/tui.h"

#define GENERATIONS_MAX 64

static int survey(struct survey *ret, const struct options *o, const char *name, struct err *err)
{
	return survey_make(ret, &o->asker, !(rights_missing() & 1ull << CAP_SYS_PTRACE), name, err);
}

int cmd_ps(const struct options *o, struct err *err)
{
	struct view_opts v = view_opts_of(o);
	struct survey s = { 0 };
	int r = survey(&s, o, NULL, err);

	if (r < 0)
		return r;
	r = o->json ? jobs_view_json(stdout, &s) : jobs_view_text(stdout, &s, &v, o->all, 0);
	survey__done(&s);
	return r < 0 ? err_set(err, r, "writing: %s", strerror(-r)) : EXIT_OK;
}

/* --- --name ------------------------------------------------------------------------------------------------- */

static int is_match(const struct survey *s, pid_t pid)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (s->jobs[i].pid == (uint32_t)pid && s->jobs[i].is_named && s->jobs[i].is_seen)
			return 1;
	return 0;
}

/* A parent matches, too: torchrun's, a DataLoader's. Children are followed. */
static int has_match_above(const struct survey *s, pid_t pid)
{
	uint64_t start_ns;
	pid_t up;

	for (int n = 0; n < GENERATIONS_MAX && !process_origin(pid, &up, &start_ns) && up > 1; n++) {
		if (is_match(s, up))
			return 1;
		pid = up;
	}
	return 0;
}

static int add_pid(struct options *o, pid_t pid, struct err *err)
{
	for (size_t i = 0; i < o->pids_cnt; i++)
		if (o->pids[i] == pid)
			return 0;
	if (o->pids_cnt == OPT_PIDS_MAX) {
		err_set(err, -E2BIG, "more than %d processes", OPT_PIDS_MAX);
		return err_hint(err, "memtrace record -a and memtrace serve -a take all of the machine"), -E2BIG;
	}
	o->pids[o->pids_cnt++] = pid;
	return 0;
}

static int none_named(const struct survey *s, const char *name, struct err *err)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (s->jobs[i].is_named) {
			err_set(err, -EACCES, "process %u, which has '%.100s' in its command line, may not be looked at",
				s->jobs[i].pid, name);
			return err_hint(err, "it is another user's: sudo memtrace …"), -EACCES;
		}
	err_set(err, -ESRCH, "no process with PyTorch has the word '%.100s' in its command line", name);
	return err_hint(err, "a whole word, such as train.py; memtrace ps lists those that there are. One that has not loaded "
			     "PyTorch yet is taken by its number, -p PID"), -ESRCH;
}

static int find_one(struct options *o, const char *name, struct err *err)
{
	struct survey s = { 0 };
	size_t before = o->pids_cnt;
	int r = survey(&s, o, name, err), found = 0;

	for (size_t i = 0; i < s.cnt && !r; i++) {
		pid_t pid = (pid_t)s.jobs[i].pid;

		if (!is_match(&s, pid) || has_match_above(&s, pid))
			continue;
		found = 1;
		r = add_pid(o, pid, err);
	}
	if (!r && !found)
		r = none_named(&s, name, err);
	survey__done(&s);
	if (r || o->quiet || o->pids_cnt == before)
		return r;
	fprintf(stderr, "%s: process", name);
	for (size_t i = before; i < o->pids_cnt; i++)
		fprintf(stderr, "%s %d", i > before ? "," : "", (int)o->pids[i]);
	fputc('\n', stderr);
	return 0;
}

int find_named(struct options *o, struct err *err)
{
	int r = o->names_cnt && o->cmd != CMD_PLAN ? rights_check(err) : 0;

	for (size_t i = 0; i < o->names_cnt && !r; i++)
		r = find_one(o, o->names[i], err);
	return r;
}

/* --- a terminal, and nothing typed ---------------------------------------------------------------------------- */

/* One that is not traced, from 1; 0: all are. */
static size_t first_free(const struct survey *s)
{
	const struct survey_job *j;

	for (size_t n = 1; (j = jobs_view_row(s, n)); n++)
		if (j->is_seen && !j->is_traced)
			return n;
	return 0;
}

/* On a terminal that has lines alone: the number of a row; 0: none. */
static size_t ask(const struct survey *s, size_t first)
{
	char line[64], *end;

	for (;;) {
		unsigned long n;

		printf("\nWhich one? Enter is %zu, q leaves: ", first);
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin)) {
			putchar('\n');
			return 0;
		}
		line[strcspn(line, "\n")] = '\0';
		if (!line[0])
			return first;
		if (!strcmp(line, "q") || !strcmp(line, "Q"))
			return 0;
		n = strtoul(line, &end, 10);
		if (!*end && n && jobs_view_row(s, n))
			return n;
		printf("'%.20s' is none of these numbers.", line);
	}
}

/* Of a text, which is cut into them. 0 or -ENOMEM. */
static int lines_of(char *text, char ***ret, size_t *ret_cnt)
{
	char *save = NULL;
	size_t cap = 0;

	*ret = NULL;
	*ret_cnt = 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!array_has_room(*ret, *ret_cnt, cap, 64))
			return -ENOMEM;
		(*ret)[(*ret_cnt)++] = line;
	}
	return 0;
}

/* The same on a whole screen. 0, or -errno. */
static int choose(const struct options *o, const struct survey *s, size_t first, size_t *ret_number, struct err *err)
{
	struct view_opts v = view_opts_of(o);
	int want_color = v.color, r;
	char *text = NULL, **lines = NULL;
	struct tui_pick p;
	size_t size = 0, cnt = 0, rows = 0;
	FILE *out = open_memstream(&text, &size);

	v.color = 0;
	r = !out ? -ENOMEM : jobs_view_text(out, s, &v, 0, 1);
	if (out && fclose(out) && !r)
		r = -ENOMEM;
	if (!r)
		r = lines_of(text, &lines, &cnt);
	while (jobs_view_row(s, rows + 1))
		rows++;
	if (!r) {
		tui_pick__init(&p, "memtrace: which process?", lines, cnt, rows, first - 1);
		r = tui_pick(&p, want_color);
		*ret_number = r == TUI_PICKED ? p.rows.row + 1 : 0;
	}
	free(lines);
	free(text);
	return r < 0 ? err_set(err, r, "the terminal: %s", strerror(-r)) : 0;
}

/* None of them can be chosen. 0, or -errno. */
static int refuse(const struct survey *s, struct err *err)
{
	int r;

	if (!jobs_view_row(s, 1)) {
		err_set(err, -ESRCH, "there is nothing to watch");
		return err_hint(err, "memtrace record -- python train.py starts a job and records it; memtrace help says "
				     "more"), -ESRCH;
	}
	r = rights_check(err);
	if (r < 0)
		return r;
	if (first_free(s))
		return 0;
	err_set(err, -EBUSY, "each of them is being traced by another memtrace already");
	return err_hint(err, "memtrace help says what else there is"), -EBUSY;
}

static int list(const struct options *o, const struct survey *s, struct err *err)
{
	struct view_opts v = view_opts_of(o);
	int r = jobs_view_text(stdout, s, &v, 0, 1);

	fflush(stdout);
	return r < 0 ? err_set(err, r, "writing: %s", strerror(-r)) : 0;
}

static int pick(struct options *o, const struct survey *s, struct err *err)
{
	int refused = refuse(s, err), has_screen = !refused && tui_fits(), r = 0;
	struct err why = { 0 };
	size_t n = 0;

	if (!has_screen)
		r = list(o, s, refused ? &why : err);
	if (refused || r < 0)
		return refused ? refused : r;
	if (has_screen)
		r = choose(o, s, first_free(s), &n, err);
	else
		n = ask(s, first_free(s));
	if (r < 0 || !n)
		return r < 0 ? r : 1;
	o->help = 0;
	return add_pid(o, (pid_t)jobs_view_row(s, n)->pid, err);
}

int pick_job(struct options *o, struct err *err)
{
	struct survey s = { 0 };
	int r = survey(&s, o, NULL, err);

	if (r < 0)
		return r;
	r = pick(o, &s, err);
	survey__done(&s);
	return r;
}
