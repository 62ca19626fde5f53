/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/replay.h"
#include "timeline/report.h"

int cmd_report(const struct options *o, struct err *err)
{
	struct replay_opts ro = { .top = report_top(o), .classes = o->classes };
	struct report *rep = NULL;
	uint64_t cut = 0;
	int r = replay_run(o->file, &ro, &rep, &cut, err);

	if (r < 0)
		return r;
	if (cut && !o->quiet)
		replay_say_cut(o->file, cut);
	r = report_write(o, rep, err);
	if (!r)
		r = loss_exit_code(o, rep);
	report__free(rep);
	return r;
}
