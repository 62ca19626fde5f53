/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * link: one BPF program on user-space sites, in either of the kernel's two ways.
 *
 * uprobe_multi (kernel >= 6.6): one link for any number of offsets of one file, each with a cookie. Made with bpf(2) itself,
 * because Debian 12's libbpf 1.1 does not know it. perf uprobe: one perf event and one link a site, cookies since 5.15.
 *
 * Either is removed when its file descriptors are closed.
 */
#ifndef MT_TRACE_LINK_H
#define MT_TRACE_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LINK_ATTACH_UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI, enum bpf_attach_type of kernel 6.6 */

/* The link's fd, or -errno. Arrays have cnt entries; ref_ctrs may be NULL. */
int link_uprobe_multi(int prog_fd, const char *path, const uint64_t *offsets, const uint64_t *ref_ctrs,
		      const uint64_t *cookies, size_t cnt, int is_ret, pid_t pid);
/* *ret_fds: the perf event and the link. 0 or -errno. */
int link_perf_uprobe(int prog_fd, const char *path, uint64_t offset, uint64_t ref_ctr, uint64_t cookie,
		     int is_ret, pid_t pid, int ret_fds[2]);

#endif
