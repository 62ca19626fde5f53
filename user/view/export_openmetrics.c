/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * openmetrics: how it all ended, as OpenMetrics 1.0 text. Each sample carries the time of the recording's
 * end, so that `promtool tsdb create-blocks-from openmetrics` takes the file as well.
 *
 * Labels are bounded: devices, categories, processes of the report, kinds, reasons; no address and no
 * operator is one.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/live.h"
#include "view/outbuf.h"

struct export_ctx {
	struct outbuf o;
	struct live *live;
	const struct export_to *to;
	uint64_t end_ms; /* since the epoch */
	char dev[16];
};

static void family(struct export_ctx *c, const char *name, const char *type, const char *unit, const char *help)
{
	outbuf__printf(&c->o, "# TYPE memtrace_%s %s\n", name, type);
	if (unit)
		outbuf__printf(&c->o, "# UNIT memtrace_%s %s\n", name, unit);
	outbuf__printf(&c->o, "# HELP memtrace_%s %s\n", name, help);
}

static void label(struct export_ctx *c, char sep, const char *name, const char *text)
{
	char clean[512];
	size_t len = clean_text(clean, sizeof(clean), text, strlen(text));

	outbuf__char(&c->o, sep);
	outbuf__str(&c->o, name);
	outbuf__lit(&c->o, "=\"");
	for (size_t i = 0; i < len; i++) {
		if (clean[i] == '"' || clean[i] == '\\')
			outbuf__char(&c->o, '\\');
		outbuf__char(&c->o, clean[i]);
	}
	outbuf__char(&c->o, '"');
}

static void label_u64(struct export_ctx *c, char sep, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	label(c, sep, name, text);
}

static void sample(struct export_ctx *c, const char *name)
{
	outbuf__lit(&c->o, "memtrace_");
	outbuf__str(&c->o, name);
}

static void put_time(struct export_ctx *c)
{
	outbuf__printf(&c->o, " %llu.%03u\n", (unsigned long long)(c->end_ms / 1000), (unsigned)(c->end_ms % 1000));
}

/* Closes the labels, if there were any. */
static void value(struct export_ctx *c, int has_labels, uint64_t v)
{
	outbuf__str(&c->o, has_labels ? "} " : " ");
	outbuf__u64(&c->o, v);
	put_time(c);
}

static void value_f64(struct export_ctx *c, double v)
{
	outbuf__printf(&c->o, " %.17g", v);
	put_time(c);
}

/* --- devices ----------------------------------------------------------------------------------------- */

#define OF_DEV(field) offsetof(struct report_dev, field)

static const struct dev_family {
	const char *name, *suffix, *type, *unit, *help;
	size_t at;
} dev_families[] = {
	{ "device_live_bytes", "", "gauge", "bytes", "Live at the end.", OF_DEV(live) },
	{ "device_peak_bytes", "", "gauge", "bytes", "Highest live bytes.", OF_DEV(peak) },
	{ "allocations", "_total", "counter", NULL, "Blocks seen born.", OF_DEV(allocs) },
	{ "frees", "_total", "counter", NULL, "Frees of blocks seen born or met.", OF_DEV(frees) },
	{ "allocated_bytes", "_total", "counter", "bytes", "Bytes of blocks seen born.", OF_DEV(alloc_bytes) },
	{ "freed_bytes", "_total", "counter", "bytes", "Bytes of blocks seen freed.", OF_DEV(free_bytes) },
	{ "out_of_memory", "_total", "counter", NULL, "Allocations that failed.", OF_DEV(ooms) },
};

static void put_devices(struct export_ctx *c, const struct report *r)
{
	char name[64];

	for (size_t f = 0; f < sizeof(dev_families) / sizeof(dev_families[0]); f++) {
		const struct dev_family *d = &dev_families[f];

		family(c, d->name, d->type, d->unit, d->help);
		snprintf(name, sizeof(name), "%s%s", d->name, d->suffix);
		for (size_t i = 0; i < r->devs_cnt; i++) {
			sample(c, name);
			label(c, '{', "device", dev_name(r->devs[i].dev, c->dev));
			value(c, 1, *(const uint64_t *)((const char *)&r->devs[i] + d->at));
		}
	}
	family(c, "device_at_peak_bytes", "gauge", "bytes", "What the device's peak was made of.");
	for (size_t i = 0; i < r->devs_cnt; i++)
		for (unsigned cat = 0; cat < CAT_MAX; cat++) {
			if (!r->devs[i].cats[cat].at_peak)
				continue;
			sample(c, "device_at_peak_bytes");
			label(c, '{', "device", dev_name(r->devs[i].dev, c->dev));
			label(c, ',', "category", category_name((enum category)cat));
			value(c, 1, r->devs[i].cats[cat].at_peak);
		}
}

static void put_lanes(struct export_ctx *c)
{
	family(c, "live_bytes", "gauge", "bytes", "Live at the end, by process, device and category.");
	for (size_t i = 0; i < live__lanes(c->live); i++) {
		const struct lane *l = live__lane(c->live, i);

		for (unsigned cat = 0; cat < CAT_MAX; cat++) {
			if (!l->cats[cat])
				continue;
			sample(c, "live_bytes");
			label_u64(c, '{', "pid", l->pid);
			label(c, ',', "device", dev_name(l->dev, c->dev));
			label(c, ',', "category", category_name((enum category)cat));
			value(c, 1, l->cats[cat]);
		}
	}
}

/* --- processes and the rest --------------------------------------------------------------------------- */

#define OF_PROC(field) offsetof(struct report_proc, field)

/* A pid may come twice: of one process that left and another that took its number, the last. */
static int is_last_of_pid(const struct report *r, size_t i)
{
	for (size_t k = i + 1; k < r->procs_cnt; k++)
		if (r->procs[k].pid == r->procs[i].pid)
			return 0;
	return 1;
}

static void put_processes(struct export_ctx *c, const struct report *r)
{
	static const struct {
		const char *name, *help;
		size_t at;
	} families[] = {
		{ "process_live_bytes", "Framework blocks of the process, all devices.", OF_PROC(live) },
		{ "process_peak_bytes", "Their highest sum.", OF_PROC(peak) },
		{ "process_rss_bytes", "Resident memory as the kernel told it last.", OF_PROC(rss_total) },
		{ "process_rss_peak_bytes", "Highest resident memory.", OF_PROC(rss_peak) },
	};

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		family(c, families[f].name, "gauge", "bytes", families[f].help);
		for (size_t i = 0; i < r->procs_cnt; i++) {
			if (!is_last_of_pid(r, i))
				continue;
			sample(c, families[f].name);
			label_u64(c, '{', "pid", r->procs[i].pid);
			label(c, ',', "comm", r->procs[i].comm ? r->procs[i].comm : "");
			value(c, 1, *(const uint64_t *)((const char *)&r->procs[i] + families[f].at));
		}
	}
}

static void put_counts(struct export_ctx *c, const struct report *r)
{
	family(c, "events", "counter", NULL, "Events of the recording, by kind.");
	for (unsigned i = 0; i < 256; i++)
		if (r->events[i]) {
			sample(c, "events_total");
			label(c, '{', "kind", event_kind_name((uint8_t)i));
			value(c, 1, r->events[i]);
		}
	family(c, "lost", "counter", NULL, "Losses by reason: all 0 means that the numbers are complete.");
	for (unsigned i = 0; i < MT_LOSS_MAX; i++)
		if (loss_name(i)) {
			sample(c, "lost_total");
			label(c, '{', "reason", loss_name(i));
			value(c, 1, r->lost[i]);
		}
	family(c, "steps", "counter", NULL, "Training steps seen.");
	sample(c, "steps_total");
	value(c, 0, r->steps);
	family(c, "probe_hits", "counter", NULL, "Times that a probe fired.");
	sample(c, "probe_hits_total");
	value(c, 0, r->probe_hits);
	family(c, "probe_seconds", "counter", "seconds", "Calibrated cost of these.");
	sample(c, "probe_seconds_total");
	value_f64(c, (double)r->probe_ns / 1e9);
	family(c, "overhead_ratio", "gauge", "ratio", "That cost as a part of the job's CPU time.");
	sample(c, "overhead_ratio");
	value_f64(c, r->overhead);
	family(c, "duration_seconds", "gauge", "seconds", "Time covered.");
	sample(c, "duration_seconds");
	value_f64(c, (double)(r->end_ts_ns - r->start_ts_ns) / 1e9);
}

static void put_all(struct export_ctx *c, const struct report *r)
{
	c->end_ms = (r->end_ts_ns + (uint64_t)r->epoch_off_ns) / 1000000;
	family(c, "target", "info", NULL, "What was traced, and by what.");
	sample(c, "target_info");
	label(c, '{', "version", MT_VERSION);
	label_u64(c, ',', "pid", r->pid);
	label(c, ',', "comm", r->comm ? r->comm : "");
	value(c, 1, 1);
	put_lanes(c);
	put_devices(c, r);
	put_processes(c, r);
	put_counts(c, r);
	outbuf__lit(&c->o, "# EOF\n");
}

static int begin(struct export_ctx **ret, const struct export_to *to)
{
	struct export_ctx *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->to = to;
	c->live = live__new(to->labels);
	if (!c->live || outbuf__init(&c->o, to->out)) {
		live__free(c->live);
		free(c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct live_change ch;
	int r = live__event(c->live, ev, &ch);

	(void)epoch_off_ns;
	return r < 0 ? r : 0;
}

static int end(struct export_ctx *c, const struct report *r)
{
	int err;

	if (!c)
		return 0;
	if (r)
		put_all(c, r);
	err = outbuf__flush(&c->o);
	live__free(c->live);
	outbuf__done(&c->o);
	free(c);
	return err;
}

const struct export_format export_openmetrics = {
	.name = "openmetrics",
	.help = "the final state as OpenMetrics 1.0 text, for Prometheus",
	.needs = EXPORT_LABELS,
	.begin = begin,
	.event = event,
	.end = end,
};
