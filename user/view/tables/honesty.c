/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/honesty.h"

#include <inttypes.h>
#include <string.h>

#include "event/event.h"
#include "plan/plan.h"
#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/page.h"
#include "view/report_words.h"

#define NOTES_SHOWN 12
#define SOURCES_MAX 16
#define LATE_SHOWN 8
#define SILENT_SHOWN 8

static const char *const loss_words[MT_LOSS_MAX] = {
	[MT_LOSS_RING] = "ring buffer full, events gone (--ring-size)",
	[MT_LOSS_THREAD_STATE] = "no room for a thread's state",
	[MT_LOSS_STACK_DEEP] = "operators nested too deep",
	[MT_LOSS_NAME_TABLE] = "too many distinct run-time names",
	[MT_LOSS_READ_FAULT] = "memory of the job could not be read",
	[MT_LOSS_PENDING] = "a return without its call, or the reverse",
	[MT_LOSS_LIVE_TABLE] = "table of live pointers full (--min-size)",
	[MT_LOSS_ARGS] = "tensors of a call not read, categories blurred",
	[MT_LOSS_DECODE] = "unreadable records",
	[MT_LOSS_ORDER] = "came too late, their time was moved",
	[MT_LOSS_FRAME] = "operator of an event unknown",
	[MT_LOSS_BLOCKS] = "table of live blocks full",
	[MT_LOSS_NAMES] = "table of names full, shown as ?",
	[MT_LOSS_THREADS] = "table of threads or processes full",
	[MT_LOSS_REUSE] = "a free was missed: its address came again",
	[MT_LOSS_SIDEBAND] = "news of libraries and children missed",
	[MT_LOSS_RECORDING] = "could not be written to the recording",
	[MT_LOSS_STALLED] = "not in the recording: the disk took nothing",
	[MT_LOSS_SITES] = "probes that could not be set",
	[MT_LOSS_SHARE] = "left out of a process that sent more than its share",
	[MT_LOSS_DAMAGED] = "in a damaged part of the recording",
	[MT_LOSS_FILES] = "files of the job that were not looked at",
	[MT_LOSS_STACKS] = "stacks that could not be kept or read",
};

/* What is said of allocations between windows. */
static void put_learned(struct page *p, const struct report_learned *l)
{
	char a[24], b[24], text[600];
	size_t n;

	if (!l->is_on)
		return;
	n = (size_t)snprintf(text, sizeof(text), "of what was allocated between windows %s (of byte-time) has the category and "
			     "operator of its like in a traced step, of %" PRIu64 " %s; ",
			     fmt_share(a, report_learned__share(l), 1), l->kinds, l->kinds == 1 ? "kind" : "kinds");
	if (l->check_bytes)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%" PRIu64 " traced steps checked that: %s of their bytes "
				      "would have been wrong", l->checks,
				      fmt_share(b, (double)l->wrong_bytes / (double)l->check_bytes, 1));
	else
		n += (size_t)snprintf(text + n, sizeof(text) - n, "no traced step has checked that yet");
	if (l->again)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "; after %" PRIu64 " of them it was learned again", l->again);
	if (l->unlike)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "; %" PRIu64 " steps are like none", l->unlike);
	if (l->no_room)
		snprintf(text + n, sizeof(text) - n, "; %" PRIu64 " allocations (%s) there was no room for: that share is "
			 "without them", l->no_room, fmt_bytes(a, l->no_room_bytes));
	page__para(p, "learned", text);
}

/* Of how many steps what is said of memory is. */
static void put_sampling(struct page *p, const struct report *r)
{
	const struct report_sampling *s = &r->sampling;
	char a[24], b[24], text[500];
	size_t n;

	if (!s->is_on)
		return;
	snprintf(text, sizeof(text), "of %" PRIu64 " steps %" PRIu64 " traced, in %" PRIu64 " windows, %s together: means, "
		 "peaks and series are of these alone", s->steps_seen, s->steps_traced, s->windows, fmt_ns(a, s->traced_ns));
	page__para(p, "sampling", text);
	n = 0;
	if (r->cost.price.steps)
		n = (size_t)snprintf(text, sizeof(text), "steps take %s, traced %s; ", fmt_ns(a, r->cost.price.before_ns),
				     fmt_ns(b, r->cost.price.traced_ns));
	n += (size_t)snprintf(text + n, sizeof(text) - n, "of its time the job lost %s", fmt_share(a, s->price_ratio, 1));
	if (s->budget > 0)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " (at most %.3g %% were asked for)", 100 * s->budget);
	if (s->uncounted_ns)
		snprintf(text + n, sizeof(text) - n, "; for %s steps were not counted: their marks alone would cost too much",
			 fmt_ns(a, s->uncounted_ns));
	page__para(p, "price", text);
	put_learned(p, &s->learned);
}

static void put_time(struct page *p, const struct report *r)
{
	const char *end = report_end_word(r);
	char a[24], text[128];

	fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns);
	if (r->run.ended)
		snprintf(text, sizeof(text), "%s, to the end (%s)", a,
			 !strcmp(end, "target gone") ? "the process ended" : end);
	else
		snprintf(text, sizeof(text), "%s; %s", a, r->run.is_live ? "it goes on" : "the end is missing");
	page__para(p, "time covered", text);
	put_sampling(p, r);
}

static void put_events(struct page *p, const struct report *r)
{
	static const uint8_t shown[] = { MT_EV_ALLOC, MT_EV_FREE, MT_EV_OP, MT_EV_NODE };
	uint64_t rest = report_events_sum(r);
	char text[200];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "%" PRIu64 ":", rest);
	for (size_t i = 0; i < sizeof(shown); i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %s %" PRIu64 ",", event_kind_name(shown[i]),
				      r->run.events[shown[i]]);
		rest -= r->run.events[shown[i]];
	}
	snprintf(text + n, sizeof(text) - n, " other %" PRIu64, rest);
	page__para(p, "events", text);
}

static void put_lost_rows(struct page *p, const struct report *r)
{
	int first = 1;

	page__style(p, STYLE_RED);
	for (unsigned i = 1; i < MT_LOSS_MAX; i++) {
		char text[160];

		if (!r->run.lost[i] || i == MT_LOSS_STACK_RATE)
			continue;
		snprintf(text, sizeof(text), "%" PRIu64 " %s: %s", r->run.lost[i], loss_name(i) ? loss_name(i) : "?",
			 loss_words[i] ? loss_words[i] : "?");
		page__para(p, first ? "lost" : "", text);
		first = 0;
	}
	page__style(p, STYLE_PLAIN);
}

static void put_losses(struct page *p, const struct report *r)
{
	char text[160];

	if (report_lost_sum(r))
		put_lost_rows(p, r);
	else
		page__para(p, "lost", "nothing");
	if (!report_sampled(r))
		return;
	snprintf(text, sizeof(text), "%" PRIu64 " allocations without a native stack: 2000 a second have one at most "
		 "(--stack-size)", report_sampled(r));
	page__para(p, "sampled", text);
}

/* ", 12 of a kind": what is zero is left out. */
static size_t put_some(char *buf, size_t size, size_t at, uint64_t cnt, const char *what)
{
	char a[24];
	int n;

	if (!cnt || at >= size)
		return at;
	n = snprintf(buf + at, size - at, "%s%s %s", at ? "; " : "", fmt_count(a, (double)cnt), what);
	return n < 0 ? at : at + (size_t)n;
}

/* Tensors that an operator was given and that have no storage for us, by their C++ class. */
static const char *const class_words[MT_CLASS_MAX] = {
	[MT_CLASS_UNKNOWN] = "tensors of a class that no library exports, not read",
	[MT_CLASS_PLAIN] = "tensors without a storage (meta, wrappers)",
	[MT_CLASS_OTHER] = "functorch's or lazy tensors without a storage",
	[MT_CLASS_SPARSE] = "sparse tensors, seen by their parts only",
	[MT_CLASS_NESTED] = "nested tensors without a storage",
	[MT_CLASS_QUANTIZED] = "quantized tensors without a storage",
};

/* What the categories rest on, and where they are weak. */
static void put_flow(struct page *p, const struct report *r)
{
	const struct report_flow *f = &r->flow;
	char text[1024] = "", a[24], b[24], c[24];
	size_t n = 0;

	if (!r->has_flow)
		return;
	snprintf(text, sizeof(text), "%s nodes, %s edges, %s in-place writes", fmt_count(a, (double)f->nodes),
		 fmt_count(b, (double)f->edges), fmt_count(c, (double)f->versions));
	page__para(p, "data flow", text);
	for (unsigned i = 0; i < MT_CLASS_MAX; i++)
		if (class_words[i])
			n = put_some(text, sizeof(text), n, f->by_class[i], class_words[i]);
	n = put_some(text, sizeof(text), n, f->output_twice, "versions made by two nodes (threads that overlap)");
	n = put_some(text, sizeof(text), n, f->input_stale, "nodes given a version that another one replaced meanwhile");
	n = put_some(text, sizeof(text), n, f->moved, "tensors that took over another block");
	n = put_some(text, sizeof(text), n, f->unmapped, "blocks that were seen late and ended with their mapping");
	n = put_some(text, sizeof(text), n, f->output_twice + f->input_stale, "times torch.profiler would have failed");
	if (n)
		page__para(p, "", text);
}

/* "operator 12 k × 1.2 µs", in one piece. */
static size_t put_prog(char *buf, size_t size, unsigned prog, const struct report_program *cost)
{
	char a[24], b[24];
	size_t n = (size_t)snprintf(buf, size, "; %s %s × %s", prog_words(prog), fmt_count(a, (double)cost->hits),
				    fmt_ns(b, cost->ns / cost->hits));

	for (char *blank = buf + 2; (blank = strchr(blank, ' '));)
		*blank = HARD_SPACE;
	return n;
}

/* By the job's own steps. */
static void put_price(struct page *p, const struct report *r)
{
	const struct report_price *price = &r->cost.price;
	char a[24], b[24], c[24], d[24], text[256];
	size_t n;

	if (!price->steps || r->sampling.is_on) /* that is told as the price of windows */
		return;
	n = (size_t)snprintf(text, sizeof(text), "a step took %s before and takes %s traced: ", fmt_ns(a, price->before_ns),
			     fmt_ns(b, price->traced_ns));
	if (report_price__is_vague(price))
		snprintf(text + n, sizeof(text) - n, "the job is slower, but %s steps before and %s since are too few, "
			 "or differ too much, to tell by how much (%s, give or take %s)",
			 fmt_count(a, (double)price->steps_before), fmt_count(b, (double)price->steps),
			 fmt_share(c, price->lost, 1), fmt_share(d, price->error, 1));
	else if (price->lost > price->error)
		snprintf(text + n, sizeof(text) - n, "the job loses %s of its speed, give or take %s",
			 fmt_share(c, price->lost, 1), fmt_share(d, price->error, 1));
	else
		snprintf(text + n, sizeof(text) - n, "no loss that stands out of the steps' own differences of %s",
			 fmt_share(d, price->error, 1));
	page__para(p, "measured", text);
}

static void put_cost(struct page *p, const struct report *r)
{
	char a[24], b[24], c[24], text[1024];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "%s hits, %s", fmt_count(a, (double)r->cost.hits),
			     fmt_ns(b, r->cost.ns));
	if (r->cost.target_cpu_ns)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ": %s of the job's CPU time",
				      fmt_share(a, r->cost.share, 1));
	for (unsigned i = 1; i < MT_PROG_MAX && n < sizeof(text) - 80; i++) {
		const struct report_program *cost = &r->cost.programs[i];

		if (cost->hits)
			n += put_prog(text + n, sizeof(text) - n, i, cost);
	}
	page__para(p, "probe cost", text);
	put_price(p, r);
	n = (size_t)snprintf(text, sizeof(text), "%s CPU (%s of one core), %s RSS", fmt_ns(a, r->cost.self_cpu_ns),
			     fmt_share(b, (double)r->cost.self_cpu_ns, (double)(r->run.end_ts_ns - r->run.start_ts_ns)),
			     fmt_bytes(c, r->cost.self_rss));
	if (r->cost.share_most > 0 && !r->cost.price.steps)
		snprintf(text + n, sizeof(text) - n, "; the job loses some %s if no CPU is free for that",
			 fmt_share(a, r->cost.share_most, 1));
	page__para(p, "memtrace itself", text);
}

struct source_sum {
	const char *name;
	uint64_t found, attached, pids;
};

/* Sums over processes, by source. */
static size_t sum_sources(const struct report *r, struct source_sum *sums)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->probes.covers_cnt; i++) {
		const struct report_cover *c = &r->probes.covers[i];
		size_t k = 0;

		while (k < cnt && strcmp(sums[k].name, c->source ? c->source : ""))
			k++;
		if (k == SOURCES_MAX)
			continue;
		if (k == cnt)
			sums[cnt++] = (struct source_sum){ .name = c->source ? c->source : "" };
		sums[k].found += c->found;
		sums[k].attached += c->attached;
		sums[k].pids++;
	}
	return cnt;
}

/* "aten::erfinv at 6.2 s (1.3 ms)", in one piece. */
static size_t put_late(char *buf, size_t size, const struct report *r, const struct report_late_op *l)
{
	char a[24], b[24], name[TEXT_BYTES_MAX];
	size_t n;

	text_fit(name, sizeof(name), l->name, 60);
	n = (size_t)snprintf(buf, size, "%s at %s (%s)", name,
			     fmt_ns(a, l->ts_ns > r->run.start_ts_ns ? l->ts_ns - r->run.start_ts_ns : 0),
			     fmt_ns(b, l->missed_ns));
	for (char *blank = buf; (blank = strchr(blank, ' '));)
		*blank = HARD_SPACE;
	return n;
}

/* What the job felt of the probes being set. */
static void put_attach(struct page *p, const struct report *r)
{
	const struct report_attach *a = &r->probes.attach;
	char took[24], slice[24], step[24], before[24], text[256];
	size_t n;

	if (!a->slices)
		return;
	n = (size_t)snprintf(text, sizeof(text), "%" PRIu64 " probes in %s, in %" PRIu64 " slices of %s at most", a->sites,
			     fmt_ns(took, a->took_ns), a->slices, fmt_ns(slice, a->longest_slice_ns));
	if (a->steps_before)
		snprintf(text + n, sizeof(text) - n, "; longest step meanwhile %s, of the %" PRIu64 " before %s",
			 fmt_ns(step, a->longest_step_ns), a->steps_before, fmt_ns(before, a->longest_before_ns));
	page__para(p, "attach", text);
}

/* Operators without a probe, and what that has cost. */
static void put_idle(struct page *p, const struct report *r)
{
	char text[4096];
	size_t n;

	if (!r->probes.idle_ts_ns && !r->probes.late_ops_total)
		return;
	snprintf(text, sizeof(text), "%" PRIu64 " operators that were never called have no probe any more (--keep-idle)",
		 r->probes.idle_ops);
	page__para(p, "idle", text);
	if (!r->probes.late_ops_total)
		return;
	n = (size_t)snprintf(text, sizeof(text), "%" PRIu64 " called later, and not seen until the probe was set again: ",
			     r->probes.late_ops_total);
	for (size_t i = 0; i < r->probes.late_ops_cnt && i < LATE_SHOWN && n < sizeof(text) - TEXT_BYTES_MAX - 64; i++) {
		if (i)
			n += (size_t)snprintf(text + n, sizeof(text) - n, ", ");
		n += put_late(text + n, sizeof(text) - n, r, &r->probes.late_ops[i]);
	}
	if (r->probes.late_ops_total > LATE_SHOWN)
		snprintf(text + n, sizeof(text) - n, ", …");
	page__para(p, "", text);
}

/* Probes that the user asked for by name, of programs that may have built them in and not pass them. */
static int is_silent(const struct report_symbol *s)
{
	return 1u << (s->source & 31) == SRC_USDT && s->attached && !s->fired && strncmp(s->name, "memtrace:", 9) &&
	       strncmp(s->name, "pytorch:", 8);
}

static void put_silent(struct page *p, const struct report *r)
{
	char text[4096];
	size_t n = 0, cnt = 0;

	for (size_t i = 0; i < r->probes.symbols_cnt; i++) {
		char name[TEXT_BYTES_MAX];

		if (!is_silent(&r->probes.symbols[i]) || cnt++ >= SILENT_SHOWN || n >= sizeof(text) - TEXT_BYTES_MAX - 128)
			continue;
		text_fit(name, sizeof(name), r->probes.symbols[i].name, 60);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? ", " : "", name);
	}
	if (!cnt)
		return;
	snprintf(text + n, sizeof(text) - n, "%s: set, and the program never came there (docs/usdt.md)",
		 cnt > SILENT_SHOWN ? ", …" : "");
	page__para(p, "never hit", text);
}

/* Of lines of which their files said nothing as they were looked up, where that is more than a little of them. */
static void put_generated(struct page *p, const struct report *r)
{
	uint64_t bytes = 0, all = 0;
	char a[24], text[400];
	size_t lines = 0;

	for (size_t i = 0; i < r->places.cnt; i++) {
		const struct report_place *row = &r->places.rows[i];
		int is_unknown = !strcmp(row->op, EV_PLACE_NOT_KNOWN);

		lines += is_unknown;
		bytes += is_unknown ? row->bytes : 0;
		all += row->bytes;
	}
	if (bytes <= all / 100)
		return;
	snprintf(text, sizeof(text), "%zu line%s that allocated %s: their files said nothing of them (gone, edited, or not "
		 "to be read), so operators are '%s', categories blurred, and phases may be missing; a "
		 "TORCHINDUCTOR_CACHE_DIR that stays keeps them", lines, lines == 1 ? "" : "s", fmt_bytes(a, bytes),
		 EV_PLACE_NOT_KNOWN);
	page__para(p, "generated code", text);
}

static void put_visible(struct page *p, const struct report *r)
{
	struct source_sum sums[SOURCES_MAX];
	size_t cnt = sum_sources(r, sums), n = 0;
	char text[1024] = "nothing: no probe was set";

	for (size_t i = 0; i < cnt && n < sizeof(text) - 128; i++) {
		char name[TEXT_BYTES_MAX];

		text_fit(name, sizeof(name), sums[i].name, 30);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %" PRIu64 " of %" PRIu64, n ? ", " : "", name,
				      sums[i].attached, sums[i].found);
		if (sums[i].pids > 1)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " (in %" PRIu64 " processes)", sums[i].pids);
	}
	if (r->probes.symbols_cnt) {
		size_t fired = 0;

		for (size_t i = 0; i < r->probes.symbols_cnt; i++)
			fired += r->probes.symbols[i].fired > 0;
		snprintf(text + n, sizeof(text) - n, "; %zu of %zu symbols fired (--by symbol)", fired,
			 r->probes.symbols_cnt);
	}
	page__para(p, "probes set", text);
	put_silent(p, r);
	put_attach(p, r);
	put_idle(p, r);
	for (size_t i = 0; i < r->run.notes_cnt && i < NOTES_SHOWN; i++)
		page__para(p, i ? "" : "not visible", r->run.notes[i]);
	if (r->run.notes_cnt > NOTES_SHOWN) {
		snprintf(text, sizeof(text), "… and %zu more notes (--json)", r->run.notes_cnt - NOTES_SHOWN);
		page__para(p, "", text);
	}
}

void view_honesty(struct page *p, const struct report *r)
{
	page__heading(p, "What this rests on");
	put_time(p, r);
	put_events(p, r);
	put_losses(p, r);
	put_generated(p, r);
	put_flow(p, r);
	put_cost(p, r);
	put_visible(p, r);
	if (r->run.host && r->run.host[0]) {
		char safe[TEXT_BYTES_MAX];

		text_fit(safe, sizeof(safe), r->run.host, 200);
		page__para(p, "made by", safe);
	}
}

/* A short session has not paid for its attach yet. */
static const char *budget_words(char *buf, size_t size, const struct report *r)
{
	snprintf(buf, size, " (%.3g %% in the long run)", 100 * r->sampling.budget);
	return r->sampling.budget > 0 ? buf : "";
}

static size_t put_measured(char *text, size_t size, const struct report *r)
{
	char a[24], b[40];
	int n = 0;

	if (r->sampling.is_on)
		n = snprintf(text, size, "%s of the job's time%s", fmt_share(a, r->sampling.price_ratio, 1),
			     budget_words(b, sizeof(b), r));
	else if (report_price__is_known(&r->cost.price) && !verdict_price_is_others(r))
		n = snprintf(text, size, "%s of the job's speed, give or take %s", fmt_share(a, r->cost.price.lost, 1),
			     fmt_share(b, r->cost.price.error, 1));
	else if (r->cost.target_cpu_ns)
		n = snprintf(text, size, "%s of the job's CPU time", fmt_share(a, r->cost.share, 1));
	else
		n = snprintf(text, size, "%s hits", fmt_count(a, (double)r->cost.hits));
	return n < 0 ? 0 : (size_t)n;
}

void view_honesty_short(struct page *p, const struct report *r)
{
	const char *end = report_end_word(r);
	uint64_t lost = report_lost_sum(r);
	char a[24], b[24], c[24], text[400];
	size_t n;

	page__heading(p, "What this rests on");
	snprintf(text, sizeof(text), "%s, %s%s%s, %s events, lost %s", fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns),
		 r->run.ended ? "to the end (" : r->run.is_live ? "it goes on" : "the end is missing",
		 !r->run.ended ? "" : !strcmp(end, "target gone") ? "the process ended" : end, r->run.ended ? ")" : "",
		 fmt_count(b, (double)report_events_sum(r)), lost ? fmt_count(c, (double)lost) : "nothing");
	page__para(p, "covered", text);
	if (lost)
		put_lost_rows(p, r);
	put_generated(p, r);
	n = put_measured(text, sizeof(text), r);
	n += (size_t)snprintf(text + n, sizeof(text) - n, "; memtrace itself %s of a core, %s RSS",
			      fmt_share(a, (double)r->cost.self_cpu_ns, (double)(r->run.end_ts_ns - r->run.start_ts_ns)),
			      fmt_bytes(b, r->cost.self_rss));
	if (r->run.notes_cnt)
		snprintf(text + n, sizeof(text) - n, "; not visible: %zu note%s (-v)", r->run.notes_cnt,
			 r->run.notes_cnt == 1 ? "" : "s");
	page__para(p, "tracing cost", text);
}
