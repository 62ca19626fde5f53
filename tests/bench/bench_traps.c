/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * bench_traps PID: the probes that memtrace has on a job after it took the idle ones away, each with a program that does
 * nothing: what the kernel alone takes for them, below which no tracer with these probes can be. Prints "ready SITES" and
 * stays until SIGINT.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "live/idle.h"
#include "plan/plan.h"
#include "target/target.h"
#include "trace/link.h"

static int empty_program(void)
{
	/* r0 = 0; exit */
	static const struct bpf_insn code[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K }, { .code = BPF_JMP | BPF_EXIT } };
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = LINK_ATTACH_UPROBE_MULTI);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", code, 2, &opts);
}

static void no_news(void *ctx, const struct site *s)
{
	(void)ctx;
	(void)s;
}

/* Sites [at, ret) share a library and a direction. */
static size_t run_end(const struct plan *p, size_t at)
{
	size_t end = at;

	while (end < p->sites_cnt && p->sites[end].lib == p->sites[at].lib && p->sites[end].is_ret == p->sites[at].is_ret)
		end++;
	return end;
}

static int set_run(int prog, pid_t pid, const struct plan *p, size_t at, size_t end, const uint8_t *wanted)
{
	uint64_t *offsets = calloc(2 * (end - at), sizeof(*offsets)), *ref_ctrs = offsets + (end - at);
	size_t cnt = 0;
	char path[64];
	int fd;

	if (!offsets)
		return -ENOMEM;
	for (size_t i = at; i < end; i++) {
		if (!wanted[i])
			continue;
		offsets[cnt] = p->sites[i].offset;
		ref_ctrs[cnt++] = p->sites[i].ref_ctr_offset;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->libs[p->sites[at].lib].fd);
	/* the link stays until the process ends */
	fd = cnt ? link_uprobe_multi(prog, path, offsets, ref_ctrs, NULL, cnt, p->sites[at].is_ret, pid) : 0;
	free(offsets);
	return fd < 0 ? fd : (int)cnt;
}

static int set_all(struct target *t, struct err *err)
{
	struct plan_opts opts = { .sources = SRC_DEFAULT };
	struct names *names = names__new();
	struct idle *idle = idle__new();
	int prog = empty_program(), sum = 0, r;
	struct plan *p = NULL;
	const uint8_t *wanted;
	uint8_t *seen = NULL;

	if (!names || !idle)
		return err_set(err, -ENOMEM, "out of memory");
	if (prog < 0)
		return err_set(err, prog, "loading a program: %s", strerror(-prog));
	r = plan__build(&p, t, &opts, names, err);
	if (r < 0)
		return r;
	seen = calloc(p->guards_cnt + 1, 1);
	r = seen ? idle__look(idle, t, p, seen, no_news, NULL) : -ENOMEM;
	wanted = r < 0 ? NULL : idle__wanted(idle, p);
	if (!wanted)
		return err_set(err, -ENODATA, "which operators were called is not known");
	for (size_t at = 0, end; at < p->sites_cnt; at = end) {
		end = run_end(p, at);
		r = set_run(prog, target__pid(t), p, at, end, wanted);
		if (r < 0)
			return err_set(err, r, "setting probes: %s", strerror(-r));
		sum += r;
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct target *t;
	sigset_t set;
	int r;

	if (argc != 2) {
		fprintf(stderr, "Usage: bench_traps PID\n");
		return 2;
	}
	r = target__open(&t, atoi(argv[1]), &err);
	if (!r)
		r = set_all(t, &err);
	if (r < 0) {
		fprintf(stderr, "bench_traps: %s\n", err.msg);
		return 1;
	}
	printf("ready %d\n", r);
	fflush(stdout);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigwait(&set, &r);
	return 0;
}
