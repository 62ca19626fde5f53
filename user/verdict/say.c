/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Commands that read a recording. A trace that is looked at while it runs keeps none: they begin with making one. */
#include "verdict/rules.h"
#include "verdict/say.h"


bool is_kept(const struct judge *j)
{
	return j->has_file || !j->r->run.is_live;
}

void say_report(const struct judge *j, struct verdict_line *l, const char *fmt, ...)
{
	uint32_t pid = is_kept(j) ? 0 : facts_to_record(j->r);
	char options[VERDICT_BYTES] = "";
	va_list args;

	va_start(args, fmt);
	(void)say_args(options, fmt, args);
	va_end(args);
	if (is_kept(j))
		say_command(l, "memtrace report %s %s", j->file, options);
	else if (!j->r->run.pid) /* all jobs, so that ranks are together */
		say_command(l, "memtrace record -a -d %d -o job.mtr && memtrace report job.mtr %s", RECORD_S, options);
	else if (pid)
		say_command(l, "memtrace record -p %u -d %d -o job.mtr && memtrace report job.mtr %s", pid, RECORD_S, options);
	else
		say_command(l, "memtrace record -o job.mtr -- COMMAND && memtrace report job.mtr %s", options);
}
