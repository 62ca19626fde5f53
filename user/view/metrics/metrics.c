/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A metric's name, type, unit and help stand in one place each. The two forms differ in the lines before the samples: the
 * older one names a counter by its whole name, has no unit and calls an info a gauge.
 */
#include "view/metrics/metrics.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "view/clean.h"
#include "view/outbuf.h"
#include "view/tables/segments.h"

#define OTHER UINT32_MAX /* row of the processes that have none of their own */

struct metrics_out {
	struct outbuf *o;
	const struct report *r;
	const struct metrics_opts *opts;
	char name[80]; /* of the family's samples */
	char sep;      /* before the next label */
	uint8_t *is_shown; /* by row of r->procs */
	char dev[16];
};

/* --- lines ----------------------------------------------------------------------------------------------- */

static void family(struct metrics_out *x, const char *name, const char *type, const char *unit, const char *help)
{
	const char *suffix = !strcmp(type, "counter") ? "_total" : !strcmp(type, "info") ? "_info" : "";
	int is_text = x->opts->form == METRICS_TEXT;

	snprintf(x->name, sizeof(x->name), "memtrace_%s%s", name, suffix);
	outbuf__printf(x->o, "# TYPE memtrace_%s%s %s\n", name, is_text ? suffix : "",
		       is_text && !strcmp(type, "info") ? "gauge" : type);
	if (unit && !is_text)
		outbuf__printf(x->o, "# UNIT memtrace_%s %s\n", name, unit);
	outbuf__printf(x->o, "# HELP memtrace_%s%s %s\n", name, is_text ? suffix : "", help);
}

static void sample(struct metrics_out *x)
{
	outbuf__str(x->o, x->name);
	x->sep = '{';
}

static void label(struct metrics_out *x, const char *name, const char *text)
{
	char clean[METRICS_LABEL_BYTES];
	size_t len = clean_text(clean, sizeof(clean), text, strlen(text));

	outbuf__char(x->o, x->sep);
	x->sep = ',';
	outbuf__str(x->o, name);
	outbuf__lit(x->o, "=\"");
	for (size_t i = 0; i < len; i++) {
		if (clean[i] == '"' || clean[i] == '\\')
			outbuf__char(x->o, '\\');
		outbuf__char(x->o, clean[i]);
	}
	outbuf__char(x->o, '"');
}

static void put_end(struct metrics_out *x)
{
	uint64_t ms = x->opts->at_ms;

	if (ms && x->opts->form == METRICS_TEXT)
		outbuf__printf(x->o, " %llu", (unsigned long long)ms);
	else if (ms)
		outbuf__printf(x->o, " %llu.%03u", (unsigned long long)(ms / 1000), (unsigned)(ms % 1000));
	outbuf__char(x->o, '\n');
}

static void put_labels_end(struct metrics_out *x)
{
	if (x->sep == ',')
		outbuf__char(x->o, '}');
	outbuf__char(x->o, ' ');
}

static void value(struct metrics_out *x, uint64_t v)
{
	put_labels_end(x);
	outbuf__u64(x->o, v);
	put_end(x);
}

static void value_f64(struct metrics_out *x, double v)
{
	put_labels_end(x);
	outbuf__printf(x->o, "%.17g", v);
	put_end(x);
}

static void single(struct metrics_out *x, const char *name, const char *type, const char *unit, const char *help, uint64_t v)
{
	family(x, name, type, unit, help);
	sample(x);
	value(x, v);
}

static void single_f64(struct metrics_out *x, const char *name, const char *type, const char *unit, const char *help, double v)
{
	family(x, name, type, unit, help);
	sample(x);
	value_f64(x, v);
}

/* --- processes ------------------------------------------------------------------------------------------- */

/* A pid may come twice: of a process that ended and another that took its number, the last. */
static int is_last_of_pid(const struct report *r, size_t i)
{
	for (size_t k = i + 1; k < r->procs_cnt; k++)
		if (r->procs[k].pid == r->procs[i].pid)
			return 0;
	return 1;
}

/* Live ones in order of appearance, and the last that ended. */
static void choose_processes(struct metrics_out *x)
{
	const struct report *r = x->r;
	size_t up = 0, gone = 0;

	for (size_t i = 0; i < r->procs_cnt && up < METRICS_PROCS_MAX; i++)
		if (r->procs[i].gone != 1 && r->procs[i].pid) {
			x->is_shown[i] = 1;
			up++;
		}
	for (size_t i = r->procs_cnt; i-- > 0 && gone < METRICS_GONE_MAX;)
		if (r->procs[i].gone == 1 && r->procs[i].pid && is_last_of_pid(r, i)) {
			x->is_shown[i] = 1;
			gone++;
		}
}

size_t metrics_up(const struct report *r)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		cnt += r->procs[i].pid && !r->procs[i].gone;
	return cnt;
}

/* The value of one of its labels, the names in order of preference; "": it has none of them. */
static const char *reported_by(const struct report_proc *p, const char *const *names, size_t names_cnt)
{
	for (size_t n = 0; n < names_cnt; n++)
		for (size_t i = 0; i < p->labels_cnt; i++)
			if (!strncmp(p->labels[i], names[n], strlen(names[n])))
				return p->labels[i] + strlen(names[n]);
	return "";
}

/* Its number among all ranks of the job, from its launcher; else among those of its machine. */
static const char *rank_of(const struct report_proc *p)
{
	static const char *const names[] = { "RANK=", "OMPI_COMM_WORLD_RANK=", "SLURM_PROCID=", "PMI_RANK=", "HOROVOD_RANK=",
					     "LOCAL_RANK=", "OMPI_COMM_WORLD_LOCAL_RANK=", "SLURM_LOCALID=" };

	return reported_by(p, names, sizeof(names) / sizeof(names[0]));
}

/* The place of a process in a container; HOSTNAME is its pod's name unless another was chosen. */
static void label_container(struct metrics_out *x, const struct report_proc *p)
{
	static const struct {
		const char *label, *names[2];
	} rows[] = {
		{ "pod", { "POD_NAME=", "HOSTNAME=" } }, { "namespace", { "POD_NAMESPACE=" } },
		{ "container", { "CONTAINER_NAME=" } },	 { "pod_uid", { "POD_UID=" } },
		{ "container_id", { "CONTAINER_ID=" } },
	};
	int is_pod = reported_by(p, rows[3].names, 1)[0] != '\0';

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *text = reported_by(p, rows[i].names, rows[i].names[1] && is_pod ? 2 : 1);

		if (text[0])
			label(x, rows[i].label, text);
	}
}

/* Row of a pid that has series of its own, or OTHER. */
static uint32_t row_of(const struct metrics_out *x, uint32_t pid)
{
	for (size_t i = x->r->procs_cnt; i-- > 0;)
		if (x->r->procs[i].pid == pid)
			return x->is_shown[i] ? (uint32_t)i : OTHER;
	return OTHER;
}

static void label_process(struct metrics_out *x, uint32_t row)
{
	const struct report_proc *p = row == OTHER ? NULL : &x->r->procs[row];
	char text[24];

	snprintf(text, sizeof(text), "%u", p ? p->pid : 0);
	label(x, "pid", p ? text : "other");
	label(x, "rank", p ? rank_of(p) : "");
}

#define OF_PROC(field) offsetof(struct report_proc, field)

static const struct {
	const char *name, *type, *help;
	size_t at;
	int is_peak; /* of several, the highest is written, not the sum */
	int is_use;  /* of processes whose pages were counted; of an ended one 0 */
} proc_families[] = {
	{ "process_live_bytes", "gauge", "Framework memory of the process, all devices.", OF_PROC(live), 0 },
	{ "process_peak_bytes", "gauge", "Its highest value.", OF_PROC(peak), 1 },
	{ "process_rss_bytes", "gauge", "Resident memory as the kernel said last.", OF_PROC(rss_total), 0 },
	{ "process_rss_peak_bytes", "gauge", "Highest resident memory.", OF_PROC(rss_peak), 1 },
	{ "process_private_bytes", "gauge", "Of its resident memory what it shares with no process, as last counted.",
	  OF_PROC(use[MT_USE_PRIVATE]), .is_use = 1 },
};

static void put_process_family(struct metrics_out *x, size_t f)
{
	uint64_t other = 0;
	int has_other = 0;

	for (size_t i = 0; i < x->r->procs_cnt; i++) {
		const struct report_proc *p = &x->r->procs[i];
		uint64_t v = *(const uint64_t *)((const char *)p + proc_families[f].at);

		if (proc_families[f].is_use && !p->use_ts_ns)
			continue;
		if (proc_families[f].is_use && p->gone == 1)
			v = 0;
		if (x->is_shown[i]) {
			sample(x);
			label_process(x, (uint32_t)i);
			value(x, v);
			continue;
		}
		has_other = 1;
		other = !proc_families[f].is_peak ? other + v : v > other ? v : other;
	}
	if (has_other) {
		sample(x);
		label_process(x, OTHER);
		value(x, other);
	}
}

static void put_processes(struct metrics_out *x)
{
	family(x, "process", "info", NULL, "Processes that are or were traced.");
	for (size_t i = 0; i < x->r->procs_cnt; i++)
		if (x->is_shown[i]) {
			sample(x);
			label_process(x, (uint32_t)i);
			label(x, "comm", x->r->procs[i].comm ? x->r->procs[i].comm : "");
			label_container(x, &x->r->procs[i]);
			value(x, 1);
		}
	if (x->opts->seen) {
		family(x, "process_up", "gauge", NULL, "1 while the process is traced, 0 when it has ended.");
		for (size_t i = 0; i < x->r->procs_cnt; i++)
			if (x->is_shown[i]) {
				sample(x);
				label_process(x, (uint32_t)i);
				value(x, !x->r->procs[i].gone);
			}
	}
	for (size_t f = 0; f < sizeof(proc_families) / sizeof(proc_families[0]); f++) {
		family(x, proc_families[f].name, proc_families[f].type, "bytes", proc_families[f].help);
		put_process_family(x, f);
	}
}

static const struct {
	const char *name, *type, *unit, *help;
	size_t at; /* of the first kind's in struct report_proc */
	size_t size; /* from one kind to the next */
	int is_sum; /* of the processes that have no series of their own; else the highest */
} mark_families[] = {
	{ "marks", "counter", NULL, "Marks of phases: fw_start, fw_bw_boundary, step.", OF_PROC(marks_cnt), sizeof(uint64_t),
	  1 },
	{ "mark_live_bytes", "gauge", "bytes", "Framework memory of the process at its last mark of that kind.",
	  OF_PROC(marks[0].live), sizeof(struct mark_at), 0 },
	{ "mark_peak_bytes", "gauge", "bytes", "Its highest value between that mark and the one before it.",
	  OF_PROC(marks[0].peak), sizeof(struct mark_at), 0 },
};

static void put_mark(struct metrics_out *x, uint32_t row, unsigned kind, uint64_t v)
{
	sample(x);
	label_process(x, row);
	label(x, "mark", mark_name((enum tl_mark)kind));
	value(x, v);
}

static void put_mark_family(struct metrics_out *x, size_t f, unsigned kind)
{
	uint64_t other = 0;
	int has_other = 0;

	for (size_t i = 0; i < x->r->procs_cnt; i++) {
		const struct report_proc *p = &x->r->procs[i];
		uint64_t v = *(const uint64_t *)((const char *)p + mark_families[f].at + kind * mark_families[f].size);

		if (!p->marks_cnt[kind])
			continue;
		if (x->is_shown[i]) {
			put_mark(x, (uint32_t)i, kind, v);
			continue;
		}
		has_other = 1;
		other = mark_families[f].is_sum ? other + v : v > other ? v : other;
	}
	if (has_other)
		put_mark(x, OTHER, kind, other);
}

static void put_marks(struct metrics_out *x)
{
	for (size_t f = 0; f < sizeof(mark_families) / sizeof(mark_families[0]) && x->r->marks.total; f++) {
		family(x, mark_families[f].name, mark_families[f].type, mark_families[f].unit, mark_families[f].help);
		for (unsigned kind = 1; kind < MARK_MAX; kind++)
			put_mark_family(x, f, kind);
	}
}

/* --- live bytes by process, device and category ------------------------------------------------------------ */

struct metrics_row {
	uint32_t proc; /* row of r->procs, or OTHER */
	uint8_t dev;
	uint16_t seen;
	uint64_t cats[CAT_MAX];
};

struct metrics_rows {
	struct metrics_row *list;
	size_t cnt;
};

#define ROWS_MAX (METRICS_LANES_MAX + 256) /* OTHER of each device always finds room */

static struct metrics_row *metrics_rows__get(struct metrics_rows *rows, uint32_t proc, uint8_t dev)
{
	for (size_t i = 0; i < rows->cnt; i++)
		if (rows->list[i].proc == proc && rows->list[i].dev == dev)
			return &rows->list[i];
	if (proc != OTHER && rows->cnt >= METRICS_LANES_MAX)
		return metrics_rows__get(rows, OTHER, dev);
	rows->list[rows->cnt] = (struct metrics_row){ .proc = proc, .dev = dev };
	return &rows->list[rows->cnt++];
}

/* Lanes seen before come first, so that they keep their place when there are too many. */
static void metrics_rows__recall(struct metrics_rows *rows, const struct metrics_out *x)
{
	const struct metrics_seen *s = x->opts->seen;

	for (size_t i = 0; s && i < s->cnt; i++) {
		uint32_t proc = s->lanes[i].pid ? row_of(x, s->lanes[i].pid) : OTHER;

		if (proc != OTHER || !s->lanes[i].pid)
			metrics_rows__get(rows, proc, s->lanes[i].dev)->seen |= s->lanes[i].cats;
	}
}

static void metrics_rows__remember(const struct metrics_rows *rows, const struct metrics_out *x)
{
	struct metrics_seen *s = x->opts->seen;

	if (!s)
		return;
	s->cnt = 0;
	for (size_t i = 0; i < rows->cnt && s->cnt < METRICS_LANES_MAX; i++) {
		s->lanes[s->cnt].pid = rows->list[i].proc == OTHER ? 0 : x->r->procs[rows->list[i].proc].pid;
		s->lanes[s->cnt].dev = rows->list[i].dev;
		s->lanes[s->cnt++].cats = rows->list[i].seen;
	}
}

static void metrics_rows__fill(struct metrics_rows *rows, const struct metrics_out *x)
{
	const struct report_lane *lanes = x->opts->lanes ? x->opts->lanes : x->r->lanes.rows;
	size_t cnt = x->opts->lanes ? x->opts->lanes_cnt : x->r->lanes.cnt;

	for (size_t i = 0; i < cnt; i++) {
		struct metrics_row *row = metrics_rows__get(rows, row_of(x, lanes[i].pid), lanes[i].dev);

		for (unsigned cat = 0; cat < CAT_MAX; cat++) {
			row->cats[cat] += lanes[i].cats[cat];
			row->seen |= (uint16_t)(!!lanes[i].cats[cat] << cat);
		}
	}
}

static void put_lanes(struct metrics_out *x)
{
	struct metrics_rows rows = { .list = calloc(ROWS_MAX, sizeof(*rows.list)) };

	family(x, "live_bytes", "gauge", "bytes", "Memory in use, by process, device and category.");
	if (!rows.list) {
		x->o->err = x->o->err ? x->o->err : -ENOMEM;
		return;
	}
	metrics_rows__recall(&rows, x);
	metrics_rows__fill(&rows, x);
	for (size_t i = 0; i < rows.cnt; i++)
		for (unsigned cat = 0; cat < CAT_MAX; cat++) {
			if (!(rows.list[i].seen & 1u << cat))
				continue;
			sample(x);
			label_process(x, rows.list[i].proc);
			label(x, "device", dev_name(rows.list[i].dev, x->dev));
			label(x, "category", category_name((enum category)cat));
			value(x, rows.list[i].cats[cat]);
		}
	metrics_rows__remember(&rows, x);
	free(rows.list);
}

/* --- devices --------------------------------------------------------------------------------------------- */

#define OF_DEV(field) offsetof(struct report_dev, field)

enum dev_need { ALWAYS = 0, BETWEEN, SEGMENTS, TOTALS, NVML };

static const struct {
	const char *name, *type, *unit, *help;
	size_t at;
	enum dev_need need;
} dev_families[] = {
	{ "device_live_bytes", "gauge", "bytes", "Framework memory in use on the device.", OF_DEV(live), ALWAYS },
	{ "device_between_bytes", "gauge", "bytes", "The same between windows, where only allocations and frees are seen.", 0,
	  BETWEEN },
	{ "device_peak_bytes", "gauge", "bytes", "Its highest value.", OF_DEV(peak), ALWAYS },
	{ "allocations", "counter", NULL, "Allocations seen.", OF_DEV(allocs), ALWAYS },
	{ "frees", "counter", NULL, "Frees of blocks that were seen before.", OF_DEV(frees), ALWAYS },
	{ "allocated_bytes", "counter", "bytes", "Bytes of allocations seen.", OF_DEV(alloc_bytes), ALWAYS },
	{ "freed_bytes", "counter", "bytes", "Bytes of blocks seen freed.", OF_DEV(free_bytes), ALWAYS },
	{ "out_of_memory", "counter", NULL, "Allocations that failed.", OF_DEV(ooms), ALWAYS },
	{ "device_driver_bytes", "gauge", "bytes", "What the driver gave and did not get back.", OF_DEV(segs.driver),
	  SEGMENTS },
	{ "device_others_bytes", "gauge", "bytes", "Of it, not the framework's.", OF_DEV(segs.others), SEGMENTS },
	{ "device_reserved_bytes", "gauge", "bytes", "What the caching allocator holds.", OF_DEV(segs.reserved), TOTALS },
	{ "device_allocated_bytes", "gauge", "bytes", "Of it, in blocks, as the allocator counts.", OF_DEV(segs.allocated),
	  TOTALS },
	{ "device_late_bytes", "gauge", "bytes", "Freed, but another stream may use it yet.", OF_DEV(segs.late), TOTALS },
	{ "device_unused_bytes", "gauge", "bytes", "Of what it holds, free.", OF_DEV(segs.unused), TOTALS },
	{ "device_private_free_bytes", "gauge", "bytes", "Of what it holds, in no block, and for CUDA graphs alone.",
	  OF_DEV(segs.private_free), TOTALS },
	{ "device_largest_free_bytes", "gauge", "bytes", "Longest free range of what it holds.", OF_DEV(segs.largest_free),
	  TOTALS },
	{ "device_used_bytes", "gauge", "bytes", "In use by all processes of the machine, as NVML says.",
	  OF_DEV(segs.nvml_used), NVML },
	{ "device_memory_bytes", "gauge", "bytes", "Memory that the device has.", OF_DEV(segs.nvml_total), NVML },
};

static int dev_has(const struct report_dev *d, enum dev_need need)
{
	switch (need) {
	case SEGMENTS:
		return d->segs.seen || d->segs.totals;
	case TOTALS:
		return d->segs.totals;
	case NVML:
		return d->segs.nvml && d->segs.nvml_total;
	default:
		return 1;
	}
}

static void put_dev_family(struct metrics_out *x, size_t f)
{
	int has_head = 0;

	for (size_t i = 0; i < x->r->devs_cnt; i++) {
		const struct report_dev *d = &x->r->devs[i];
		uint64_t v = *(const uint64_t *)((const char *)d + dev_families[f].at);
		enum dev_need need = dev_families[f].need;

		if (need == BETWEEN ? !report_dev_between(x->r, d, &v) : !dev_has(d, need))
			continue;
		if (!has_head)
			family(x, dev_families[f].name, dev_families[f].type, dev_families[f].unit, dev_families[f].help);
		has_head = 1;
		sample(x);
		label(x, "device", dev_name(d->dev, x->dev));
		value(x, v);
	}
}

static void put_fragmentation(struct metrics_out *x)
{
	int has_head = 0;

	for (size_t i = 0; i < x->r->devs_cnt; i++) {
		if (!dev_has(&x->r->devs[i], TOTALS))
			continue;
		if (!has_head)
			family(x, "device_fragmentation_ratio", "gauge", "ratio",
			       "1 less the longest free range's share of what the caching allocator holds free.");
		has_head = 1;
		sample(x);
		label(x, "device", dev_name(x->r->devs[i].dev, x->dev));
		value_f64(x, segments_fragmentation(&x->r->devs[i].segs));
	}
}

static void put_at_peak(struct metrics_out *x)
{
	family(x, "device_at_peak_bytes", "gauge", "bytes", "What the device's peak was made of.");
	for (size_t i = 0; i < x->r->devs_cnt; i++)
		for (unsigned cat = 0; cat < CAT_MAX; cat++) {
			const struct report_cat *c = &x->r->devs[i].cats[cat];

			if (!c->at_peak && !(x->opts->seen && c->byte_ns))
				continue;
			sample(x);
			label(x, "device", dev_name(x->r->devs[i].dev, x->dev));
			label(x, "category", category_name((enum category)cat));
			value(x, c->at_peak);
		}
}

static void put_devices(struct metrics_out *x)
{
	for (size_t f = 0; f < sizeof(dev_families) / sizeof(dev_families[0]); f++)
		put_dev_family(x, f);
	put_fragmentation(x);
	put_at_peak(x);
}

/* --- the rest -------------------------------------------------------------------------------------------- */

static void put_events(struct metrics_out *x)
{
	family(x, "events", "counter", NULL, "Events, by kind.");
	for (unsigned i = 0; i < EV_MAX; i++)
		if (x->r->run.events[i]) {
			sample(x);
			label(x, "kind", event_kind_name((uint8_t)i));
			value(x, x->r->run.events[i]);
		}
	family(x, "lost", "counter", NULL, "Losses by reason: all 0 means that the numbers are complete.");
	for (unsigned i = 0; i < MT_LOSS_MAX; i++)
		if (loss_name(i)) {
			sample(x);
			label(x, "reason", loss_name(i));
			value(x, x->r->run.lost[i]);
		}
	single(x, "steps", "counter", NULL, "Training steps seen.", x->r->marks.steps_total);
	if (!x->r->compiles.cnt && !x->r->compiles.missed)
		return;
	single(x, "compiles", "counter", NULL, "Compilations of torch.compile that were seen.", x->r->compiles.cnt);
	single(x, "recompiles", "counter", NULL, "Of them, of functions that were compiled before.", x->r->compiles.again);
	single_f64(x, "recompile_seconds", "counter", "seconds", "Time that recompiles took.",
		   (double)x->r->compiles.again_ns / 1e9);
}

static void put_estimate(struct metrics_out *x, uint8_t dev, const char *category, const char *of, double v)
{
	sample(x);
	label(x, "device", dev_name(dev, x->dev));
	label(x, "category", category);
	label(x, "of", of);
	value_f64(x, v);
}

/* Only known values: of one window no error is known. */
static void put_step_family(struct metrics_out *x, int is_error)
{
	const struct report_steps *s = &x->r->sampling.steps;

	if (is_error)
		family(x, "traced_step_error_bytes", "gauge", "bytes", "How far off that may be of all steps, 95 % sure.");
	else
		family(x, "traced_step_bytes", "gauge", "bytes", "A traced step on average, at its peak and over its time.");
	for (size_t i = 0; i < s->devs_cnt; i++)
		for (unsigned c = 0; c < CAT_MAX; c++) {
			const struct report_step_cat *cat = &s->devs[i].cats[c];
			const char *name = category_name((enum category)c);

			if (cat->at_peak.mean <= 0 && cat->mean.mean <= 0)
				continue;
			put_estimate(x, s->devs[i].dev, name, "peak", is_error ? cat->at_peak.error : cat->at_peak.mean);
			put_estimate(x, s->devs[i].dev, name, "mean", is_error ? cat->mean.error : cat->mean.mean);
		}
}

static void put_steps(struct metrics_out *x)
{
	const struct report_steps *s = &x->r->sampling.steps;

	if (s->devs_cnt)
		put_step_family(x, 0);
	if (s->devs_cnt && s->windows > 1)
		put_step_family(x, 1);
}

/* Shares of memory live between windows, by the source of the labels. */
static void put_learned(struct metrics_out *x)
{
	const struct report_learned *l = &x->r->sampling.learned;

	if (!l->is_on)
		return;
	single_f64(x, "learned_ratio", "gauge", "ratio",
		   "Of what was allocated between windows, by byte-time, what has the labels of its like in a traced step.",
		   report_learned__share(l));
	single_f64(x, "learned_wrong_ratio", "gauge", "ratio", "Of the bytes of checks, those whose learned labels were wrong.",
		   l->check_bytes ? (double)l->wrong_bytes / (double)l->check_bytes : 0);
	single(x, "learned_again", "counter", NULL, "Checks that were so wrong that the step was learned again.", l->again);
}

static void put_costs(struct metrics_out *x)
{
	const struct report *r = x->r;

	single(x, "probe_hits", "counter", NULL, "Times that a probe fired.", r->cost.hits);
	single_f64(x, "probe_seconds", "counter", "seconds", "Calibrated cost of these.", (double)r->cost.ns / 1e9);
	single_f64(x, "target_cpu_seconds", "counter", "seconds", "CPU time that the traced processes used meanwhile.",
		   (double)r->cost.target_cpu_ns / 1e9);
	single_f64(x, "overhead_ratio", "gauge", "ratio", "The first as a part of the second, since the start.", r->cost.share);
	single_f64(x, "self_cpu_seconds", "counter", "seconds", "CPU time that memtrace used.",
		   (double)r->cost.self_cpu_ns / 1e9);
	single(x, "self_rss_bytes", "gauge", "bytes", "Resident memory of memtrace.", r->cost.self_rss);
	single_f64(x, "duration_seconds", "gauge", "seconds", "Time covered.",
		   (double)(r->run.end_ts_ns - r->run.start_ts_ns) / 1e9);
	if (!r->sampling.is_on)
		return;
	single(x, "steps_seen", "counter", NULL, "Steps that have ended, traced or not.", r->sampling.steps_seen);
	single(x, "steps_traced", "counter", NULL, "Of them, those that were traced whole: what is said of memory is of these.",
	       r->sampling.steps_traced);
	single_f64(x, "price_ratio", "gauge", "ratio", "What the job lost of its time since the start, by its own steps.",
		   r->sampling.price_ratio);
	put_steps(x);
	put_learned(x);
}

static void put_head(struct metrics_out *x)
{
	const struct report *r = x->r;
	char pid[24];

	snprintf(pid, sizeof(pid), "%u", r->run.pid);
	family(x, "target", "info", NULL, "What was traced, and by what.");
	sample(x);
	label(x, "version", MT_VERSION);
	label(x, "pid", pid);
	label(x, "comm", r->run.comm ? r->run.comm : "");
	value(x, 1);
	if (x->opts->seen) {
		single(x, "up", "gauge", NULL, "1 while a traced process is there, 0 when all have ended.", metrics_up(r) > 0);
		single_f64(x, "report_age_seconds", "gauge", "seconds", "How old these numbers are; 0 once all have ended.",
			   (double)x->opts->age_ns / 1e9);
	}
	if (!x->opts->memory_bytes)
		return;
	single(x, "host_memory_bytes", "gauge", "bytes", "Memory of the machine.", x->opts->memory_bytes);
	single(x, "host_memory_available_bytes", "gauge", "bytes", "Of it, what programs can still get without swapping.",
	       x->opts->memory_available_bytes);
}

void metrics__write(struct outbuf *o, const struct report *r, const struct metrics_opts *opts)
{
	struct metrics_out x = { .o = o, .r = r, .opts = opts, .is_shown = calloc(r->procs_cnt + 1, 1) };

	if (!x.is_shown) {
		o->err = o->err ? o->err : -ENOMEM;
		return;
	}
	choose_processes(&x);
	put_head(&x);
	put_lanes(&x);
	put_devices(&x);
	put_processes(&x);
	put_marks(&x);
	put_events(&x);
	put_costs(&x);
	if (opts->form == METRICS_OPENMETRICS)
		outbuf__lit(o, "# EOF\n");
	free(x.is_shown);
}
