/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/jobs.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "target/door.h"
#include "target/kin.h"
#include "target/proc_io.h"
#include "target/proc_text.h"

int is_job_library(const char *path)
{
	static const char *const begins[] = { "libc10.so",  "libtorch_cpu.so", "libtorch_cuda.so", "libtorch_hip.so",
					      "libcuda.so", "libcudart",       "libamdhip64.so",   "libnccl.so",
					      "librccl.so" };
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (!strncmp(base, begins[i], strlen(begins[i])))
			return 1;
	return 0;
}

static int on_map(void *ctx, const struct maps_line *line)
{
	char path[PATH_MAX];

	(void)ctx;
	if (!line->exec || !line->path_len)
		return 0;
	maps_path_unescape(line->path, line->path_len, path, sizeof(path));
	return is_job_library(path);
}

int job_check(pid_t pid)
{
	int fd = door_file(pid, DOOR_MAPS), found;
	char *text;
	size_t len;

	if (fd < 0)
		return fd == -E2BIG ? fd : 0; /* ended since, not visible for us, or the keeper has refused it as no job */
	found = proc_read_fd(fd, MAPS_BYTES_MAX, &text, &len);
	close(fd);
	if (found < 0)
		return 0;
	found = maps_each(text, len, on_map, NULL, NULL);
	free(text);
	return !found && len >= MAPS_BYTES_MAX ? -E2BIG : found;
}

struct job_list {
	pid_t *all;
	size_t cnt, cap, cut;
};

static int add_job(void *ctx, pid_t pid)
{
	struct job_list *l = ctx;
	int found = pid == getpid() ? 0 : job_check(pid);

	l->cut += found == -E2BIG;
	if (found <= 0)
		return 0;
	if (!array_has_room(l->all, l->cnt, l->cap, 64))
		return -ENOMEM;
	l->all[l->cnt++] = pid;
	return 0;
}

int jobs_list(pid_t **ret, size_t *ret_cut)
{
	struct job_list l = { 0 };
	int r = processes_each(add_job, &l);

	*ret_cut = l.cut;
	if (r < 0) {
		free(l.all);
		return r;
	}
	*ret = l.all;
	return (int)l.cnt;
}
