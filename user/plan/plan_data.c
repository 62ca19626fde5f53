/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A finished plan: sorting, look-ups, the check for files that may have changed, freeing. */
#define LOG_MODULE "plan"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/free.h"
#include "base/log.h"
#include "plan/builder.h"

void plan__free(struct plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->libs_cnt; i++) {
		free(p->libs[i].path);
		if (p->libs[i].fd >= 0)
			close(p->libs[i].fd);
	}
	for (size_t i = 0; i < p->notes_cnt; i++)
		free(p->notes[i]);
	free_all(p->libs, p->sites, p->guards, p->vtables, p->specs, p->seg_specs, p->flow_specs, p->flow_vtables, p->notes,
		 p);
}

/*
 * The order in which sites are set, across libraries; it matters while a busy job goes on, most of all with perf uprobes, which
 * take long. Marks of steps come first, their ends before their begins (a region without its end stays open), so that steps can
 * be timed before anything else costs time. Then frees: a free whose block was not seen is harmless, a block whose free was not
 * seen looks lost. Then returns: a call whose return is not seen looks lost. Then allocations, before the thousands of
 * operators: an operator's argument whose allocation was not seen is taken for a block from before the attach, and a busy job
 * makes hundreds of them while sites are set. Operators are last.
 */
static int site_rank(const struct site *s)
{
	if (site__is_mark(s))
		return s->prog == MT_PROG_REGION_END ? 0 : 1;
	if (s->prog == MT_PROG_FW_DELETE || s->prog == MT_PROG_HOST_FREE)
		return 2;
	if (s->is_ret || s->prog == MT_PROG_HOST_EXIT)
		return 3;
	if (s->prog == MT_PROG_FW_NEW || s->prog == MT_PROG_FW_OOM || s->prog == MT_PROG_FW_USAGE)
		return 4;
	return s->prog == MT_PROG_OP || s->prog == MT_PROG_FLOW_OP ? 6 : 5;
}

static int site_cmp(const void *pa, const void *pb)
{
	const struct site *a = pa, *b = pb;

	return site_rank(a) - site_rank(b) ?: cmp_up(a->lib, b->lib) ?: cmp_up(a->prog, b->prog) ?:
	       cmp_up(a->offset, b->offset) ?: cmp_up(a->cookie, b->cookie);
}

/*
 * Sorts, and drops a second site of one program at one place: aliases (memalign and aligned_alloc of glibc are one function),
 * functions that the linker has folded.
 */
void plan__sort(struct plan *p)
{
	size_t n = 0;

	if (p->vtables_cnt)
		qsort(p->vtables, p->vtables_cnt, sizeof(*p->vtables), u64_cmp);
	if (p->sites_cnt)
		qsort(p->sites, p->sites_cnt, sizeof(*p->sites), site_cmp);
	for (size_t i = 0; i < p->sites_cnt; i++) {
		const struct site *s = &p->sites[i], *last = n ? &p->sites[n - 1] : NULL;

		if (last && last->lib == s->lib && last->prog == s->prog && last->offset == s->offset)
			continue;
		p->sites[n++] = *s;
	}
	p->sites_cnt = n;
}

/* After the sites are sorted. 0 or -ENOMEM. */
int plan__list_guards(struct plan *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->sites_cnt; i++)
		n += p->sites[i].guard != 0;
	p->guards = n ? malloc(n * sizeof(*p->guards)) : NULL;
	if (n && !p->guards)
		return -ENOMEM;
	for (size_t i = 0; i < p->sites_cnt; i++)
		if (p->sites[i].guard)
			p->guards[p->guards_cnt++] = (struct plan_guard){ p->sites[i].guard, (uint32_t)i };
	if (n)
		qsort(p->guards, n, sizeof(*p->guards), u64_cmp);
	return 0;
}

/* A probe in the middle of an instruction would harm the job: so the file must not have changed since. */
unsigned plan__drop_changed(struct plan *p)
{
	uint8_t *changed = calloc(p->libs_cnt + 1, 1);
	struct builder b = { .plan = p };
	unsigned cnt = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->libs_cnt && changed; i++) {
		struct elf_stamp now;

		if (!elf_stamp__of(p->libs[i].fd, &now) && now.size == p->libs[i].size &&
		    now.mtime_ns == p->libs[i].mtime_ns)
			continue;
		changed[i] = 1;
		cnt++;
		builder__note(&b, "%s is left out: it was changed after it was looked at", p->libs[i].path);
	}
	for (size_t i = 0; i < p->sites_cnt && cnt; i++)
		if (!changed[p->sites[i].lib])
			p->sites[n++] = p->sites[i];
	if (cnt) {
		p->sites_cnt = n;
		free(p->guards);
		p->guards_cnt = 0;
		p->guards = NULL;
		(void)plan__list_guards(p); /* without them all operators stay */
	}
	p->files_left_out += cnt;
	if (!changed)
		p->sites_cnt = 0;
	free(changed);
	return cnt;
}
