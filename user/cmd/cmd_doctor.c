/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * doctor: checks what tracing needs on this machine, one line each, with a remedy if something is
 * missing. Reports, repairs nothing; exit code 1 when tracing cannot work as things are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/kernel_version.h"
#include "live/stream.h"
#include "event/event.h"
#include "trace/trace.h"
#include "view/page.h"

#define FIXED_BYTES (64ull << 20)	  /* code, BPF maps, names, series, threads, one frame of a recording */
#define BLOCK_BYTES 64ull

enum doctor_grade { FINE, HINT, BAD };

struct doctor {
	struct page p;
	int is_bad;
};

static void say(struct doctor *d, enum doctor_grade v, const char *what, const char *text)
{
	static const char *const marks[] = { "ok  ", "note", "BAD " };

	page__style(&d->p, v == BAD ? STYLE_RED : v == HINT ? STYLE_BOLD : STYLE_PLAIN);
	page__put(&d->p, marks[v]);
	page__style(&d->p, STYLE_PLAIN);
	page__para(&d->p, what, text);
	d->is_bad |= v == BAD;
}

static void say_hint(struct doctor *d, const char *text)
{
	page__put(&d->p, "    ");
	page__para(&d->p, "", text);
}

/* First line of a small file of the kernel, without its newline: 0 or -errno. */
static int read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");

	if (!f)
		return -errno;
	if (!fgets(buf, (int)size, f))
		buf[0] = '\0';
	fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

static void look_kernel(struct doctor *d)
{
	char text[300];
	struct utsname u;
	struct err err = { 0 };
	int is_known;

	if (uname(&u))
		return;
	snprintf(text, sizeof(text), "%s %s, %s", u.sysname, u.release, u.machine);
	is_known = !strcmp(u.machine, arch.machine) && !arch__ready(&err);
	say(d, kernel_at_least(5, 15) && is_known ? FINE : BAD, "kernel", text);
	snprintf(text, sizeof(text), "this memtrace was built for %s", arch.name);
	if (!is_known)
		say_hint(d, err.msg[0] ? err.msg : text);
	if (!kernel_at_least(5, 15))
		say_hint(d, "5.15 is the oldest that gives a uprobe a cookie; 6.6 or newer attaches thousands at once");
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
		say(d, BAD, "BTF", "/sys/kernel/btf/vmlinux is missing: BPF programs cannot be fitted to this kernel");
		say_hint(d, "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions ship them");
	} else {
		say(d, FINE, "BTF", "/sys/kernel/btf/vmlinux");
	}
	snprintf(text, sizeof(text), "%s (%u online)", trace_libbpf_version(),
		 (unsigned)sysconf(_SC_NPROCESSORS_ONLN));
	say(d, FINE, "libbpf, CPUs", text);
}

static void look_rights(struct doctor *d, uint64_t missing)
{
	char text[300], names[80];

	snprintf(text, sizeof(text), "uid %u; %s%s", (unsigned)geteuid(), missing ? "missing " : "CAP_SYS_PTRACE at hand",
		 missing ? rights_names(missing, names, sizeof(names)) :
		 rights_are_narrow() ? ", and CAP_BPF and CAP_PERFMON in the place of CAP_SYS_ADMIN: kernel 6.18 sets no "
				       "uprobe with these alone, and libbpf 1.1 loads no program" :
				       ", CAP_SYS_ADMIN too");
	say(d, missing ? BAD : rights_are_narrow() ? HINT : FINE, "rights", text);
	if (missing)
		say_hint(d, "run memtrace with sudo, or give it these capabilities; report and export need none");
}

/* Cost and result of a probe on each class of instruction, as just tried. */
static void look_classes(struct doctor *d, const struct insn_classes *c)
{
	const char *what = "one uprobe hit";

	for (int i = INSN_NOP5; i < INSN_CLASSES && c->is_tried; i++, what = "") {
		const struct insn_class_fact *f = &c->of[i];
		char text[200];

		if (f->verdict == INSN_UNTRIED)
			continue;
		if (f->verdict == INSN_NOT_SET)
			snprintf(text, sizeof(text), "%s: cannot be probed by this kernel", insn_class_name(i));
		else
			snprintf(text, sizeof(text), "%s: %u ns, %s%s", insn_class_name(i), f->hit_ns,
				 insn_verdict_text(f->verdict), f->is_usable ? "" : ": memtrace sets none there");
		say(d, f->is_usable ? FINE : HINT, what, text);
	}
}

static void look_probes(struct doctor *d, uint64_t missing)
{
	struct trace_features f = { 0 };
	char text[400];

	if (missing) {
		say(d, HINT, "uprobes", "not tried: needs the rights above");
		return;
	}
	(void)trace_probe_features(&f);
	if (f.error[0]) {
		snprintf(text, sizeof(text), "a trial failed: %s", f.error);
		say(d, BAD, "BPF programs", text);
		return;
	}
	if (f.has_uprobe_multi)
		say(d, FINE, "uprobe_multi", "works: thousands of probes in a fraction of a second");
	else if (f.has_perf_uprobe)
		say(d, HINT, "uprobe_multi", "missing (kernel 6.6, all threads 6.10): one perf event a probe instead; "
					     "attaching takes seconds");
	else
		say(d, BAD, "uprobes", "neither uprobe_multi nor perf uprobes work here");
	look_classes(d, &f.classes);
}

static void look_limits(struct doctor *d, uint64_t missing)
{
	char text[300], line[64], a[24], b[24], c[24];
	struct rlimit lim;
	uint64_t window;

	if (!read_line("/proc/sys/kernel/perf_event_paranoid", line, sizeof(line))) {
		snprintf(text, sizeof(text), "%.20s%s", line, missing && atoi(line) > 0 ? ": only privileged users" : "");
		say(d, FINE, "perf paranoid", text);
	}
	if (!getrlimit(RLIMIT_MEMLOCK, &lim)) {
		snprintf(text, sizeof(text), "locked memory %s",
			 lim.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt_bytes(a, lim.rlim_cur));
		say(d, !kernel_at_least(5, 11) && lim.rlim_cur != RLIM_INFINITY ? HINT : FINE, "limits", text);
	}
	if (!getrlimit(RLIMIT_NOFILE, &lim)) {
		snprintf(text, sizeof(text), "%" PRIu64 " open files%s", (uint64_t)lim.rlim_cur,
			 lim.rlim_cur < 8192 ? "; perf uprobes need two a probe" : "");
		say(d, FINE, "", text);
	}
	snprintf(text, sizeof(text), "%s for all CPUs together (--ring-size)", fmt_bytes(a, trace_ring_bytes()));
	say(d, FINE, "ring buffers", text);
	window = stream_window(0) * sizeof(struct event);
	snprintf(text, sizeof(text),
		 "memtrace's RSS stays below %s (rings %s, order window %s, the rest) plus %u bytes a live block",
		 fmt_bytes(a, trace_ring_bytes() + window + FIXED_BYTES),
		 fmt_bytes(b, trace_ring_bytes()), fmt_bytes(c, window), (unsigned)BLOCK_BYTES);
	say(d, FINE, "memory", text);
}

int cmd_doctor(const struct options *o, struct err *err)
{
	struct view_opts v = view_opts_of(o);
	uint64_t missing = rights_missing();
	struct doctor d = { 0 };
	int r = page__init(&d.p, stdout, v.width > 24 ? v.width - 4 : 96, v.color);

	if (r < 0)
		return err_set(err, r, "%s", strerror(-r));
	look_kernel(&d);
	look_rights(&d, missing);
	look_probes(&d, missing);
	look_limits(&d, missing);
	r = page__done(&d.p);
	if (r < 0)
		return err_set(err, r, "writing: %s", strerror(-r));
	return d.is_bad ? EXIT_FAILED : EXIT_OK;
}
