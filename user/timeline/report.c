/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Gives back what model__report built, also half-built: everything it owns is NULL until made. */
#include "timeline/report.h"

#include <stdlib.h>

#include "timeline/ranks.h"

static void report_ops__free(struct report_op *ops, size_t cnt)
{
	for (size_t i = 0; ops && i < cnt; i++)
		free(ops[i].name);
	free(ops);
}

static void report_proc__done(struct report_proc *p)
{
	for (size_t i = 0; p->labels && i < p->labels_cnt; i++)
		free(p->labels[i]);
	free(p->labels);
	free(p->comm);
	free(p->cmdline);
}

static void report_oom__done(struct report_oom *o)
{
	for (size_t i = 0; i < o->ops_cnt; i++)
		free(o->ops[i].name);
	for (size_t i = 0; i < o->blocks_cnt; i++) {
		free(o->blocks[i].op);
		free(o->blocks[i].region);
		free(o->blocks[i].name);
	}
	free(o->comm);
	free(o->op);
	free(o->region);
	free(o->api);
}

static void report_frames__free(struct report_frame *frames, size_t cnt)
{
	for (size_t i = 0; frames && i < cnt; i++) {
		free(frames[i].function);
		free(frames[i].file);
	}
	free(frames);
}

void report_ranks__free(struct report_ranks *r)
{
	if (!r)
		return;
	for (size_t i = 0; r->rows && i < r->cnt; i++) {
		free(r->rows[i].host);
		free(r->rows[i].steps);
		free(r->rows[i].series.points);
	}
	free(r->rows);
	free(r->steps);
	report__free(r->worst);
	free(r);
}

void report__free(struct report *r)
{
	if (!r)
		return;
	for (size_t i = 0; r->stacks && i < r->stacks_cnt; i++)
		report_frames__free(r->stacks[i].frames, r->stacks[i].frames_cnt);
	free(r->stacks);
	for (size_t i = 0; r->covers && i < r->covers_cnt; i++)
		free(r->covers[i].source);
	for (size_t i = 0; r->symbols && i < r->symbols_cnt; i++)
		free(r->symbols[i].name);
	for (size_t i = 0; r->notes && i < r->notes_cnt; i++)
		free(r->notes[i]);
	for (size_t i = 0; r->late_ops && i < r->late_ops_cnt; i++)
		free(r->late_ops[i].name);
	for (size_t i = 0; r->devs && i < r->devs_cnt; i++)
		free(r->devs[i].series.points);
	for (size_t i = 0; r->procs && i < r->procs_cnt; i++)
		report_proc__done(&r->procs[i]);
	for (size_t i = 0; r->peak_blocks && i < r->peak_blocks_cnt; i++) {
		free(r->peak_blocks[i].op);
		free(r->peak_blocks[i].region);
		free(r->peak_blocks[i].name);
	}
	for (size_t i = 0; i < r->ooms_cnt; i++)
		report_oom__done(&r->ooms[i]);
	for (size_t i = 0; i < r->leaks.cnt; i++) {
		free(r->leaks.rows[i].op);
		free(r->leaks.rows[i].region);
		report_frames__free(r->leaks.rows[i].frames, r->leaks.rows[i].frames_cnt);
	}
	free(r->leaks.rows);
	for (size_t i = 0; r->tensors && i < r->tensors_cnt; i++) {
		free(r->tensors[i].path);
		free(r->tensors[i].root);
		free(r->tensors[i].type);
		free(r->tensors[i].key);
	}
	free(r->tensors);
	report_ranks__free(r->ranks);
	for (size_t i = 0; r->modules && i < r->modules_cnt; i++) {
		free(r->modules[i].name);
		free(r->modules[i].root);
		free(r->modules[i].class);
	}
	free(r->modules);
	for (size_t i = 0; i < r->op_modules_cnt; i++) {
		free(r->op_modules[i].op);
		free(r->op_modules[i].module);
		free(r->op_modules[i].root);
	}
	free(r->op_modules);
	free(r->marks);
	free(r->step_rows);
	report_ops__free(r->ops, r->ops_cnt);
	report_ops__free(r->regions, r->regions_cnt);
	free(r->no_op.name);
	free(r->host);
	free(r->comm);
	free(r->cmdline);
	free(r->covers);
	free(r->symbols);
	free(r->notes);
	free(r->late_ops);
	free(r->devs);
	free(r->procs);
	free(r->peak_blocks);
	free(r->seg_rows);
	free(r->lanes);
	free(r->rss.points);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		free(r->rss_kinds[i].points);
	free(r->pss.points);
	free(r->huge.points);
	free(r);
}
