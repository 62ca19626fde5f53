/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The report of devices beside their blocks. */
#include "model/core/check.h"
#include "model/segments/gpu.h"
#include "model/model_gpu.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

int model__gpu_report(const struct model *m, uint8_t dev, struct report_dev *ret)
{
	struct report_segments *s = &ret->segs;
	const struct nvml_dev *n;
	int r;

	if (!m->gpu || !dev_is_gpu(dev))
		return 0;
	r = segments__report(m->gpu->segs, dev, m->blocks, s);
	gpu__counted(m->gpu, dev, s);
	n = &m->gpu->nvml[dev];
	s->nvml = n->seen;
	s->nvml_procs = n->procs;
	s->nvml_used = n->used;
	s->nvml_total = n->total;
	s->nvml_used_peak = n->used_peak;
	s->nvml_own = n->own;
	s->nvml_own_peak = n->own_peak;
	if (!s->totals)
		s->backend = m->gpu->is_async[dev]   ? BACKEND_ASYNC :
			     m->gpu->is_request[dev] ? BACKEND_NO_CACHING :
						       BACKEND_UNKNOWN;
	segments__layers(s, ret->live);
	return r;
}

int model__gpu_rows(const struct model *m, uint32_t pid, int dev, size_t top, struct report_seg_row **ret, size_t *ret_cnt)
{
	return m->gpu ? segments__rows(m->gpu->segs, m->blocks, pid, dev, top, ret, ret_cnt) : 0;
}

int model__gpu_pools(const struct model *m, size_t top, struct report_driver *ret)
{
	return m->gpu ? segments__pools(m->gpu->segs, m->blocks, m->start_ts_ns, top, &ret->pools, &ret->pools_cnt) : 0;
}

int model__gpu_report_unknown(const struct model *m, struct report *ret)
{
	struct report_segments s;
	int r;

	if (!m->gpu)
		return 0;
	r = segments__report(m->gpu->segs, MT_DEV_NONE, m->blocks, &s);
	for (int i = 0; i < MT_SEG_MAX; i++)
		ret->driver.unknown[i] = s.kinds[i];
	ret->driver.unknown_comm = s.comm;
	ret->driver.unknown_comm_peak = s.comm_peak;
	return r;
}

void model__gpu_check(const struct model *m)
{
	uint64_t own[256] = { 0 };
	const struct block *b;
	size_t pos = 0;

	if (!m->gpu)
		return;
	segments__check(m->gpu->segs);
	for (size_t i = 0; i < m->gpu->nvml_procs_cnt; i++)
		own[m->gpu->nvml_procs[i].dev] += m->gpu->nvml_procs[i].bytes;
	for (int i = 0; i < 256; i++)
		mt_check(own[i] == m->gpu->nvml[i].own && own[i] <= m->gpu->nvml[i].own_peak);
	while ((b = blocks__next(m->blocks, &pos))) {
		mt_check(b->from == FROM_ALLOCATOR || dev_is_gpu((uint8_t)b->dev));
		mt_check(b->from != FROM_ASYNC || !segments__has_totals(m->gpu->segs, b->pid, (uint8_t)b->dev));
		mt_check(b->stream <= m->gpu->streams_cnt || b->stream == STREAM_OTHER);
	}
}

uint64_t model__gpu_high(const struct model *m)
{
	return m->gpu ? segments__high(m->gpu->segs) : 0;
}
