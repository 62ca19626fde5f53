/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/others.h"

#include <bpf/bpf.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define LINK_UPROBE_MULTI 12
#define PROGRAMS "mt_" /* the prefix of all our programs (bpf/) */

/* struct bpf_link_info of such a link, as of 6.8: the headers of older distributions have fewer fields. */
struct multi_info {
	uint32_t type, id, prog_id, unused;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t path_size, count, flags, pid;
};

_Static_assert(sizeof(struct multi_info) == 64, "the kernel's");

static int is_memtrace(uint32_t prog_id)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(prog_id), r;

	if (fd < 0)
		return 0;
	r = !bpf_obj_get_info_by_fd(fd, &info, &len) && !strncmp(info.name, PROGRAMS, sizeof(PROGRAMS) - 1);
	close(fd);
	return r;
}

static int is_in_process(uint32_t link_id, pid_t pid)
{
	struct multi_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_link_get_fd_by_id(link_id), r;

	if (fd < 0)
		return 0; /* closed since */
	r = !bpf_obj_get_info_by_fd(fd, &info, &len) && info.type == LINK_UPROBE_MULTI && info.pid == (uint32_t)pid &&
	    is_memtrace(info.prog_id);
	close(fd);
	return r;
}

int others_trace(pid_t pid)
{
	uint32_t id = 0;

	while (!bpf_link_get_next_id(id, &id))
		if (is_in_process(id, pid))
			return 1;
	return 0;
}
