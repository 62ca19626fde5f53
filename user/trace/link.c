/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/link.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UPROBE_MULTI_RETURN 1u /* BPF_F_UPROBE_MULTI_RETURN */
#define UPROBE_REF_CTR_SHIFT 32 /* include/uapi: PERF_UPROBE_REF_CTR_OFFSET_SHIFT */

/* link_create of union bpf_attr as of kernel 6.6; the headers of older distributions lack the end. */
struct attr_uprobe_multi {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, pad;
};

struct attr_perf_event {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t cookie;
};

static int bpf_link_new(void *attr, size_t len)
{
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, attr, len);

	return fd < 0 ? -errno : (int)fd;
}

int link_uprobe_multi(int prog_fd, const char *path, const uint64_t *offsets, const uint64_t *ref_ctrs,
		      const uint64_t *cookies, size_t cnt, int is_ret, pid_t pid)
{
	struct attr_uprobe_multi a = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = LINK_ATTACH_UPROBE_MULTI,
		.path = (uint64_t)(uintptr_t)path,
		.offsets = (uint64_t)(uintptr_t)offsets,
		.ref_ctr_offsets = (uint64_t)(uintptr_t)ref_ctrs,
		.cookies = (uint64_t)(uintptr_t)cookies,
		.cnt = (uint32_t)cnt,
		.multi_flags = is_ret ? UPROBE_MULTI_RETURN : 0,
		.pid = (uint32_t)pid,
	};

	return bpf_link_new(&a, sizeof(a));
}

static int sysfs_number(const char *path, const char *fmt)
{
	FILE *f = fopen(path, "re");
	int n = -1;

	if (!f)
		return -errno;
	if (fscanf(f, fmt, &n) != 1)
		n = -EINVAL;
	fclose(f);
	return n;
}

int link_perf_uprobe(int prog_fd, const char *path, uint64_t offset, uint64_t ref_ctr, uint64_t cookie,
		     int is_ret, pid_t pid, int ret_fds[2])
{
	static int type = -1, ret_bit = -1;
	struct perf_event_attr pe;
	struct attr_perf_event a;
	int pfd, lfd;

	if (type < 0)
		type = sysfs_number("/sys/bus/event_source/devices/uprobe/type", "%d");
	if (ret_bit < 0)
		ret_bit = sysfs_number("/sys/bus/event_source/devices/uprobe/format/retprobe", "config:%d");
	if (type < 0 || ret_bit < 0)
		return -ENOTSUP;
	if (ref_ctr >> 32)
		return -ERANGE;
	memset(&pe, 0, sizeof(pe));
	pe.size = sizeof(pe);
	pe.type = (uint32_t)type;
	pe.config = (is_ret ? 1ull << ret_bit : 0) | ref_ctr << UPROBE_REF_CTR_SHIFT;
	pe.config1 = (uint64_t)(uintptr_t)path;
	pe.config2 = offset;
	pfd = (int)syscall(SYS_perf_event_open, &pe, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (pfd < 0)
		return -errno;
	a = (struct attr_perf_event){ .prog_fd = (uint32_t)prog_fd,
				      .target_fd = (uint32_t)pfd,
				      .attach_type = BPF_PERF_EVENT,
				      .cookie = cookie };
	lfd = bpf_link_new(&a, sizeof(a));
	if (lfd < 0) {
		close(pfd);
		return lfd;
	}
	ret_fds[0] = pfd;
	ret_fds[1] = lfd;
	return 0;
}
