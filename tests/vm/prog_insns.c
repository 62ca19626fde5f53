/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What the verifier had to walk through: a line "NAME VERIFIED_INSNS" for each loaded program mt_*.
 * bpftool does not print that number.
 */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	__u32 id = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = { 0 };
		__u32 len = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue; /* unloaded in between */
		if (!bpf_obj_get_info_by_fd(fd, &info, &len) && !strncmp(info.name, "mt_", 3))
			printf("%s %u\n", info.name, info.verified_insns);
		close(fd);
	}
	return 0;
}
