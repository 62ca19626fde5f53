/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/live.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "memtrace/shared.h"
#include "memtrace.skel.h"

#define BATCH 4096

void live_init(struct mt_bpf *skel)
{
	bpf_map__set_max_entries(skel->maps.live, MT_LIVE_MAX);
	bpf_map__set_max_entries(skel->maps.live_counts, MT_TARGETS_MAX);
}

/* Deletes those of a batch that belong to the process. Returns how many. */
static uint64_t forget_some(int fd, const struct mt_live_key *keys, uint32_t cnt, pid_t pid)
{
	uint64_t gone = 0;

	for (uint32_t i = 0; i < cnt; i++)
		if (keys[i].pid == (uint64_t)pid)
			gone += !bpf_map_delete_elem(fd, &keys[i]);
	return gone;
}

static uint64_t forget_all(int fd, pid_t pid)
{
	struct mt_live_key *keys = malloc(BATCH * (sizeof(*keys) + sizeof(uint64_t)));
	uint64_t *sizes = keys ? (uint64_t *)(keys + BATCH) : NULL, gone = 0;
	uint32_t at, cnt, is_first = 1;
	int r = keys ? 0 : -ENOMEM;

	while (!r) {
		cnt = BATCH;
		r = bpf_map_lookup_batch(fd, is_first ? NULL : &at, &at, keys, sizes, &cnt, NULL);
		if (!r || r == -ENOENT) /* the last batch */
			gone += forget_some(fd, keys, cnt, pid);
		is_first = 0;
	}
	free(keys);
	return gone;
}

void live_forget(struct mt_bpf *skel, pid_t pid)
{
	int counts = bpf_map__fd(skel->maps.live_counts);
	uint32_t key = (uint32_t)pid;
	struct mt_live_count c;

	if (bpf_map_lookup_elem(counts, &key, &c))
		return;
	if (c.cnt)
		__atomic_sub_fetch(&skel->bss->mt_live_cnt, forget_all(bpf_map__fd(skel->maps.live), pid), __ATOMIC_RELAXED);
	(void)bpf_map_delete_elem(counts, &key);
}
