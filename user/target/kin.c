/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/kin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "target/proc_io.h"
#include "target/proc_text.h"

int process_origin(pid_t pid, pid_t *ret_ppid, uint64_t *ret_start_ns)
{
	char path[32], *text;
	struct proc_stat st;
	size_t len;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = proc_read(AT_FDCWD, path, 4096, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	r = proc_stat_parse(text, len, &st);
	free(text);
	if (r < 0)
		return r;
	*ret_ppid = st.ppid;
	*ret_start_ns = proc_ticks_ns(st.start_ticks);
	return 0;
}

int processes_each(int (*fn)(void *ctx, pid_t pid), void *ctx)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (!r && (e = readdir(d))) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);

		if (pid > 0 && pid <= INT_MAX && !*end)
			r = fn(ctx, (pid_t)pid);
	}
	closedir(d);
	return r;
}

struct kin_list {
	struct proc_kin *all;
	size_t cnt, cap;
};

static int add_kin(void *ctx, pid_t pid)
{
	struct kin_list *l = ctx;
	uint64_t start_ns;
	pid_t ppid;

	if (process_origin(pid, &ppid, &start_ns) < 0)
		return 0; /* ended since */
	if (!array_has_room(l->all, l->cnt, l->cap, 256))
		return -ENOMEM;
	l->all[l->cnt++] = (struct proc_kin){ pid, ppid };
	return 0;
}

int processes_read(struct proc_kin **ret)
{
	struct kin_list l = { 0 };
	int r = processes_each(add_kin, &l);

	if (r < 0) {
		free(l.all);
		return r;
	}
	*ret = l.all;
	return (int)l.cnt;
}

int processes_below(struct proc_kin *all, size_t all_cnt, pid_t pid, int deep, pid_t **ret)
{
	pid_t parent = pid, *found = malloc((all_cnt + 1) * sizeof(*found));
	size_t cnt = 0, at = 0;

	if (!found)
		return -ENOMEM;
	do {
		for (size_t i = 0; i < all_cnt; i++) {
			if (all[i].ppid != parent || all[i].pid == pid)
				continue;
			found[cnt++] = all[i].pid;
			all[i].ppid = 0; /* each is found once, whatever the table contains */
		}
		parent = at < cnt ? found[at] : 0;
	} while (deep && at++ < cnt);
	*ret = found;
	return (int)cnt;
}
