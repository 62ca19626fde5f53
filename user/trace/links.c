/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "trace/closer.h"

/*
 * What setting a site takes says about what removing it does, but for the kernel's grace periods: in these the job goes on
 * (seen beside six busy loops: 7.8 ms a site, of which some 50 us were work).
 */
#define SITE_NS_MAX 200000

int links__add(struct links *l, const struct link_key *key, int is_first, const int fds[2], const uint64_t *offsets,
	       size_t offsets_cnt)
{
	uint64_t *copy = malloc((offsets_cnt + 1) * sizeof(*copy));

	if (!copy || !array_has_room(l->v, l->cnt, l->cap, 64)) {
		free(copy);
		close(fds[0]);
		if (fds[1] >= 0)
			close(fds[1]);
		return -ENOMEM;
	}
	memcpy(copy, offsets, offsets_cnt * sizeof(*copy));
	qsort(copy, offsets_cnt, sizeof(*copy), u64_cmp);
	l->v[l->cnt++] = (struct link){ .key = *key, .fds = { fds[0], fds[1] }, .is_first = is_first,
					.offsets = copy, .offsets_cnt = offsets_cnt };
	return 0;
}

int links__has_operators(const struct links *l, pid_t pid)
{
	for (size_t i = 0; i < l->cnt; i++)
		if (l->v[i].key.pid == pid && (l->v[i].key.prog == MT_PROG_OP || l->v[i].key.prog == MT_PROG_FLOW_OP))
			return 1;
	return 0;
}

int links__has_file(const struct links *l, int file_fd)
{
	for (size_t i = 0; i < l->cnt; i++)
		if (l->v[i].key.file_fd == file_fd)
			return 1;
	return 0;
}

int link_key_same(const struct link_key *a, const struct link_key *b)
{
	return a->pid == b->pid && a->file_fd == b->file_fd && a->prog == b->prog && a->is_ret == b->is_ret &&
	       a->level == b->level;
}

static int link__is_of(const struct link *l, const struct link_key *key, enum which_links which)
{
	return (which == LINKS_ALL || (which == LINKS_FIRST) == l->is_first) && link_key_same(&l->key, key);
}

int links__offsets(const struct links *l, const struct link_key *key, enum which_links which, uint64_t **ret,
		   size_t *ret_cnt)
{
	size_t cnt = 0, at = 0;
	uint64_t *all;

	for (size_t i = 0; i < l->cnt; i++)
		if (link__is_of(&l->v[i], key, which))
			cnt += l->v[i].offsets_cnt;
	all = malloc((cnt + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < l->cnt && at < cnt; i++) {
		if (!link__is_of(&l->v[i], key, which))
			continue;
		memcpy(all + at, l->v[i].offsets, l->v[i].offsets_cnt * sizeof(*all));
		at += l->v[i].offsets_cnt;
	}
	qsort(all, at, sizeof(*all), u64_cmp);
	*ret = all;
	*ret_cnt = at;
	return 0;
}

/*
 * Perf events have no covers, and the kernel removes one after the other, with a grace period in which it holds a lock: more
 * threads would hardly be faster (64: 70 to 125 ms each, one: 130 to 170), and a kill leaves all that wait behind: 62 probes in
 * eight of twelve cases.
 *
 * Links are closed before their perf events; the last set goes first, so that entries of the malloc family are gone before its
 * returns.
 */
void links__close_marked(struct links *l, struct closer *closer, uint64_t site_ns)
{
	struct closing *fds = malloc((2 * l->cnt + 1) * sizeof(*fds));
	size_t kept = 0, cnt = 0;
	int is_perf = 0;

	if (site_ns > SITE_NS_MAX)
		site_ns = SITE_NS_MAX;
	for (size_t i = l->cnt; i-- > 0;) {
		if (l->v[i].key.pid)
			continue;
		is_perf |= l->v[i].fds[1] >= 0;
		for (int k = 1; k >= 0; k--) {
			if (l->v[i].fds[k] < 0)
				continue;
			if (fds) /* sites are removed with the multi link, or with the perf event */
				fds[cnt++] = (struct closing){ l->v[i].fds[k], k ? 0 : l->v[i].offsets_cnt * site_ns };
			else
				close(l->v[i].fds[k]);
		}
		free(l->v[i].offsets);
	}
	for (size_t i = 0; i < l->cnt; i++)
		if (l->v[i].key.pid)
			l->v[kept++] = l->v[i];
	l->cnt = kept;
	closer__add(closer, fds, cnt, is_perf ? 1 : CLOSER_THREADS);
	free(fds);
}

void links__close_pid(struct links *l, pid_t pid, struct closer *closer, uint64_t site_ns)
{
	for (size_t i = 0; i < l->cnt; i++)
		if (!pid || l->v[i].key.pid == pid)
			l->v[i].key.pid = 0;
	links__close_marked(l, closer, site_ns);
}

size_t links__mark_above(struct links *l, pid_t pid, enum mt_level level)
{
	size_t sites = 0;

	for (size_t i = 0; i < l->cnt; i++) {
		if (l->v[i].key.pid != pid || l->v[i].key.level <= level)
			continue;
		l->v[i].key.pid = 0;
		sites += l->v[i].offsets_cnt;
	}
	return sites;
}

void links__done(struct links *l)
{
	free(l->v);
	*l = (struct links){ 0 };
}
