/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "trace"
#include "trace/kernel.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "trace/trace.h"

#define LIBBPF_WORDS_MAX 800

int kernel__words(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char *text;
	int len;

	if (level == LIBBPF_DEBUG || log_get_level() < LOG_DEBUG)
		return 0;
	len = vasprintf(&text, fmt, ap);
	if (len < 0)
		return 0;
	if (len > LIBBPF_WORDS_MAX) /* a verifier's log, with the reason at its end */
		log_debug("libbpf: %.80s\n[…]%s", text, text + len - LIBBPF_WORDS_MAX);
	else
		log_debug("libbpf: %s", text);
	free(text);
	return 0;
}

int kernel__few_descriptors(struct err *err)
{
	err_set(err, -EMFILE, "memtrace may not have as many open files as it needs");
	return err_hint(err, "raise the limit: ulimit -n 1024; more where there are many CPUs, or kernels before 6.6");
}

/* May this process load any program of our kind? A verifier that rejects the program returns EACCES, too. */
static int may_load(void)
{
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "mt_nothing", "Dual BSD/GPL", nothing, 2, NULL);

	if (fd < 0)
		return 0;
	close(fd);
	return 1;
}

int kernel__refused(struct err *err, int r)
{
	if (r == -EMFILE)
		return kernel__few_descriptors(err);
	if ((r == -EPERM || r == -EACCES) && !may_load()) {
		err_set(err, r, "the kernel does not let us load BPF programs: %s", strerror(-r));
		return err_hint(err, "run as root (sudo), or with " RIGHTS_NEEDED);
	}
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
		err_set(err, -ENOTSUP, "this kernel has no BTF (/sys/kernel/btf/vmlinux is missing)");
		return err_hint(err, "a kernel with CONFIG_DEBUG_INFO_BTF=y is needed; see memtrace doctor");
	}
	err_set(err, r, "loading the BPF programs: %s", strerror(-r));
	if (r == -ENOMEM)
		return err_hint(err, "a memory limit (of a cgroup) is too low for them: a smaller --ring-size needs less");
	return err_hint(err, "try again with -vv to see the kernel's words; kernel 5.15 or newer is needed");
}
