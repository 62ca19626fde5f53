/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Text that several rules share: processes, and commands that read a recording; without one they begin with making one. */
#include "verdict/rules.h"
#include "verdict/say.h"


void say_report(const struct judge *j, struct verdict_line *l, const char *fmt, ...)
{
	uint32_t pid = j->has_file ? 0 : facts_to_record(j->r);
	char options[VERDICT_BYTES] = "";
	va_list args;

	va_start(args, fmt);
	(void)say_args(options, fmt, args);
	va_end(args);
	if (j->has_file)
		say_command(l, "memtrace report %s %s", j->file, options);
	else if (!j->r->run.pid) /* all jobs, so that ranks are together */
		say_command(l, "memtrace record -a -d %d -o job.mtr && memtrace report job.mtr %s", RECORD_S, options);
	else if (pid)
		say_command(l, "memtrace record -p %u -d %d -o job.mtr && memtrace report job.mtr %s", pid, RECORD_S, options);
	else
		say_command(l, "memtrace record -o job.mtr -- COMMAND && memtrace report job.mtr %s", options);
}

/* A folder may be called .pyenv. */
static const char *end_of_script(const char *cmdline)
{
	const char *py = cmdline ? strstr(cmdline, ".py") : NULL;

	while (py && py[3] && py[3] != ' ')
		py = strstr(py + 3, ".py");
	return py;
}

const char *verdict_job_name(char buf[TEXT_BYTES_MAX], const struct report_proc *p)
{
	const char *py = end_of_script(p->cmdline), *at = py;
	char script[TEXT_BYTES_MAX];

	if (!py)
		return name(buf, p->comm, "?");
	while (at > p->cmdline && at[-1] != ' ' && at[-1] != '/')
		at--;
	snprintf(script, sizeof(script), "%.*s", (int)(py + 3 - at), at);
	return name(buf, script, "?");
}

const char *whose_words(char buf[TEXT_BYTES_MAX + 40], const struct report_proc *p)
{
	char job[TEXT_BYTES_MAX];

	buf[0] = '\0';
	if (p)
		snprintf(buf, TEXT_BYTES_MAX + 40, " of process %u (%s)", p->pid, verdict_job_name(job, p));
	return buf;
}
