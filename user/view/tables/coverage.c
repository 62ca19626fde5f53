/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/coverage.h"

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

/* The sentence on allocations between windows. */
static void put_learned(struct page *p, const struct report_learned *l)
{
	char a[24], b[24];
	struct sentence s = { 0 };

	if (!l->is_on)
		return;
	sentence__add(&s, "of what was allocated between windows %s (of byte-time) has the category and operator of its like "
		      "in a traced step, of %" PRIu64 " %s; ", fmt_share(a, report_learned__share(l), 1), l->kinds,
		      l->kinds == 1 ? "kind" : "kinds");
	if (l->check_bytes)
		sentence__add(&s, "%" PRIu64 " traced steps checked that: %s of their bytes would have been wrong", l->checks,
			      fmt_share(b, (double)l->wrong_bytes / (double)l->check_bytes, 1));
	else
		sentence__add(&s, "no traced step has checked that yet");
	if (l->again)
		sentence__add(&s, "; after %" PRIu64 " of them it was learned again", l->again);
	if (l->unlike)
		sentence__add(&s, "; %" PRIu64 " steps are like none", l->unlike);
	if (l->no_room)
		sentence__add(&s, "; %" PRIu64 " allocations (%s) there was no room for: that share is without them",
			      l->no_room, fmt_bytes(a, l->no_room_bytes));
	page__para(p, "learned", s.text);
}

/* Nothing is known of the time between merged recordings. */
static void put_pauses(struct page *p, const struct report *r)
{
	const struct report_sampling *s = &r->sampling;
	char a[24];

	if (s->pauses)
		page__paraf(p, "not traced", "%s between merged recordings, in %u pause%s: no mean, rate or series is of it",
			    fmt_ns(a, s->paused_ns), s->pauses, s->pauses == 1 ? "" : "s");
}

/* The steps that values of memory are from, and the price of tracing them. */
static void put_sampling(struct page *p, const struct report *r)
{
	const struct report_sampling *s = &r->sampling;
	struct sentence price = { 0 };
	char a[24], b[24];

	if (!s->is_on)
		return;
	page__paraf(p, "sampling", "of %" PRIu64 " steps %" PRIu64 " traced, in %" PRIu64 " windows, %s together: means and "
		    "peaks are of these alone", s->steps_seen, s->steps_traced, s->windows, fmt_ns(a, s->traced_ns));
	if (r->cost.price.steps)
		sentence__add(&price, "steps take %s, traced %s; ", fmt_ns(a, r->cost.price.before_ns),
			      fmt_ns(b, r->cost.price.traced_ns));
	sentence__add(&price, "of its time the job lost %s", fmt_share(a, s->price_ratio, 1));
	if (s->budget > 0)
		sentence__add(&price, " (at most %.3g %% were asked for)", 100 * s->budget);
	if (s->uncounted_ns)
		sentence__add(&price, "; for %s steps were not counted: their marks alone would cost too much",
			      fmt_ns(a, s->uncounted_ns));
	page__para(p, "price", price.text);
	put_learned(p, &s->learned);
}

static void put_time(struct page *p, const struct report *r)
{
	const char *end = report_end_word(r);
	char a[24];
	struct sentence s = { 0 };

	fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns);
	if (r->run.ended)
		sentence__add(&s, "%s, to the end (%s)", a, !strcmp(end, "target gone") ? "the process ended" : end);
	else
		sentence__add(&s, "%s; %s", a, r->run.is_live ? "it goes on" : "the end is missing");
	page__para(p, "time covered", s.text);
	put_pauses(p, r);
	put_sampling(p, r);
}

static void put_events(struct page *p, const struct report *r)
{
	static const uint8_t shown[] = { MT_EV_ALLOC, MT_EV_FREE, MT_EV_OP, MT_EV_NODE };
	uint64_t rest = report_events_sum(r);
	struct sentence s = { 0 };

	sentence__add(&s, "%" PRIu64 ":", rest);
	for (size_t i = 0; i < sizeof(shown); i++) {
		sentence__add(&s, " %s %" PRIu64 ",", event_kind_name(shown[i]), r->run.events[shown[i]]);
		rest -= r->run.events[shown[i]];
	}
	sentence__add(&s, " other %" PRIu64, rest);
	page__para(p, "events", s.text);
}

static void put_lost_rows(struct page *p, const struct report *r)
{
	int first = 1;

	page__style(p, STYLE_RED);
	for (unsigned i = 1; i < MT_LOSS_MAX; i++) {
		if (!r->run.lost[i] || i == MT_LOSS_STACK_RATE)
			continue;
		page__paraf(p, first ? "lost" : "", "%" PRIu64 " %s: %s", r->run.lost[i], loss_name(i) ? loss_name(i) : "?",
			    loss_words[i] ? loss_words[i] : "?");
		first = 0;
	}
	page__style(p, STYLE_PLAIN);
}

static void put_losses(struct page *p, const struct report *r)
{
	if (report_lost_sum(r))
		put_lost_rows(p, r);
	else
		page__para(p, "lost", "nothing");
	if (!report_sampled(r))
		return;
	page__paraf(p, "sampled", "%" PRIu64 " allocations without a native stack: 2000 a second have one at most "
		    "(--stack-size)", report_sampled(r));
}

/* ", 12 of a kind"; nothing if cnt is 0. */
static void put_some(struct sentence *s, uint64_t cnt, const char *what)
{
	char a[24];

	if (cnt)
		sentence__add(s, "%s%s %s", s->len ? "; " : "", fmt_count(a, (double)cnt), what);
}

/* Tensors that an operator was given and whose storage is unknown, by their C++ class. */
static const char *const class_words[MT_CLASS_MAX] = {
	[MT_CLASS_UNKNOWN] = "tensors of a class that no library exports, not read",
	[MT_CLASS_PLAIN] = "tensors without a storage (meta, wrappers)",
	[MT_CLASS_OTHER] = "functorch's or lazy tensors without a storage",
	[MT_CLASS_SPARSE] = "sparse tensors, seen by their parts only",
	[MT_CLASS_NESTED] = "nested tensors without a storage",
	[MT_CLASS_QUANTIZED] = "quantized tensors without a storage",
};

/* The basis of categories, and their weak points. */
static void put_flow(struct page *p, const struct report *r)
{
	const struct report_flow *f = &r->flow;
	char a[24], b[24], c[24];
	struct sentence s = { 0 };

	if (!r->has_flow)
		return;
	page__paraf(p, "data flow", "%s nodes, %s edges, %s in-place writes", fmt_count(a, (double)f->nodes),
		    fmt_count(b, (double)f->edges), fmt_count(c, (double)f->versions));
	for (unsigned i = 0; i < MT_CLASS_MAX; i++)
		if (class_words[i])
			put_some(&s, f->by_class[i], class_words[i]);
	put_some(&s, f->output_twice, "versions made by two nodes (threads that overlap)");
	put_some(&s, f->input_stale, "nodes given a version that another one replaced meanwhile");
	put_some(&s, f->moved, "tensors that took over another block");
	put_some(&s, f->unmapped, "blocks that were seen late and ended with their mapping");
	put_some(&s, f->output_twice + f->input_stale, "times torch.profiler would have failed");
	if (s.len)
		page__para(p, "", s.text);
}

static void make_one_piece(char *text)
{
	for (; (text = strchr(text, ' ')); text++)
		*text = HARD_SPACE;
}

/* "operator 12 k × 1.2 µs", in one piece. */
static void put_prog(struct sentence *s, unsigned prog, const struct report_program *cost)
{
	char a[24], b[24];
	size_t at;

	sentence__add(s, "; ");
	at = s->len;
	sentence__add(s, "%s %s × %s", prog_words(prog), fmt_count(a, (double)cost->hits), fmt_ns(b, cost->ns / cost->hits));
	make_one_piece(s->text + at);
}

/* By the job's own steps. */
static void put_price(struct page *p, const struct report *r)
{
	const struct report_price *price = &r->cost.price;
	char a[24], b[24], c[24], d[24];
	struct sentence s = { 0 };

	if (!price->steps || r->sampling.is_on) /* that is shown as the price of windows */
		return;
	if (!price->steps_after)
		sentence__add(&s, "a step took %s before and takes %s traced: ", fmt_ns(a, price->before_ns),
			      fmt_ns(b, price->traced_ns));
	else if (!price->steps_before)
		sentence__add(&s, "a step took %s traced and %s after: ", fmt_ns(a, price->traced_ns),
			      fmt_ns(b, price->after_ns));
	else
		sentence__add(&s, "a step took %s before, %s traced and %s after: ", fmt_ns(a, price->before_ns),
			      fmt_ns(b, price->traced_ns), fmt_ns(c, price->after_ns));
	if (report_price__is_vague(price))
		sentence__add(&s, "the job is slower, but %s untraced steps and %s traced ones are too few, or differ too "
			      "much, to tell by how much (%s, give or take %s)",
			      fmt_count(a, (double)report_price__untraced(price)),
			      fmt_count(b, (double)price->steps), fmt_share(c, price->lost, 1), fmt_share(d, price->error, 1));
	else if (price->lost > price->error)
		sentence__add(&s, "the job loses %s of its speed, give or take %s", fmt_share(c, price->lost, 1),
			      fmt_share(d, price->error, 1));
	else if (report_price__is_reversed(price))
		sentence__add(&s, "something else slowed the job down while nothing was traced, so what tracing costs is "
				  "not known");
	else
		sentence__add(&s, "no loss that stands out of the steps' own differences of %s", fmt_share(d, price->error, 1));
	page__para(p, "measured", s.text);
}

static void put_cost(struct page *p, const struct report *r)
{
	char a[24], b[24], c[24];
	struct sentence s = { 0 };

	sentence__add(&s, "%s hits, %s", fmt_count(a, (double)r->cost.hits), fmt_ns(b, r->cost.ns));
	if (r->cost.target_cpu_ns)
		sentence__add(&s, ": %s of the job's CPU time", fmt_share(a, r->cost.share, 1));
	for (unsigned i = 1; i < MT_PROG_MAX && s.len < sizeof(s.text) - 80; i++) {
		const struct report_program *cost = &r->cost.programs[i];

		if (cost->hits)
			put_prog(&s, i, cost);
	}
	page__para(p, "probe cost", s.text);
	put_price(p, r);
	s.len = 0;
	sentence__add(&s, "%s CPU (%s of one core), %s RSS", fmt_ns(a, r->cost.self_cpu_ns),
		      fmt_share(b, (double)r->cost.self_cpu_ns, (double)report_seen_ns(r)),
		      fmt_bytes(c, r->cost.self_rss));
	if (r->cost.share_most > 0 && !r->cost.price.steps)
		sentence__add(&s, "; the job loses some %s if no CPU is free for that", fmt_share(a, r->cost.share_most, 1));
	page__para(p, "memtrace itself", s.text);
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
static void put_late(struct sentence *s, const struct report *r, const struct report_late_op *l)
{
	char a[24], b[24], name[TEXT_BYTES_MAX];
	size_t at = s->len;

	text_fit(name, sizeof(name), l->name, 60);
	sentence__add(s, "%s at %s (%s)", name, fmt_ns(a, l->ts_ns > r->run.start_ts_ns ? l->ts_ns - r->run.start_ts_ns : 0),
		      fmt_ns(b, l->missed_ns));
	make_one_piece(s->text + at);
}

/* The effect of setting probes on the job. */
static void put_attach(struct page *p, const struct report *r)
{
	const struct report_attach *a = &r->probes.attach;
	char took[24], slice[24], step[24], before[24];
	struct sentence s = { 0 };

	if (!a->slices)
		return;
	sentence__add(&s, "%" PRIu64 " probes in %s, in %" PRIu64 " slices of %s at most", a->sites, fmt_ns(took, a->took_ns),
		      a->slices, fmt_ns(slice, a->longest_slice_ns));
	if (a->steps_before)
		sentence__add(&s, "; longest step meanwhile %s, of the %" PRIu64 " before %s", fmt_ns(step, a->longest_step_ns),
			      a->steps_before, fmt_ns(before, a->longest_before_ns));
	page__para(p, "attach", s.text);
}

/* Operators without a probe, and the cost of that. */
static void put_idle(struct page *p, const struct report *r)
{
	struct sentence s = { 0 };

	if (!r->probes.idle_ts_ns && !r->probes.late_ops_total)
		return;
	page__paraf(p, "idle", "%" PRIu64 " operators that were never called have no probe any more (--keep-idle)",
		    r->probes.idle_ops);
	if (!r->probes.late_ops_total)
		return;
	sentence__add(&s, "%" PRIu64 " called later, and not seen until the probe was set again: ", r->probes.late_ops_total);
	for (size_t i = 0; i < r->probes.late_ops_cnt && i < LATE_SHOWN; i++) {
		if (i)
			sentence__add(&s, ", ");
		put_late(&s, r, &r->probes.late_ops[i]);
	}
	if (r->probes.late_ops_total > LATE_SHOWN)
		sentence__add(&s, ", …");
	page__para(p, "", s.text);
}

/* Probes that the user asked for by name: programs may have them and never pass them. */
static int is_silent(const struct report_symbol *s)
{
	return 1u << (s->source & 31) == SRC_USDT && s->attached && !s->fired && strncmp(s->name, "memtrace:", 9) &&
	       strncmp(s->name, "pytorch:", 8);
}

static void put_silent(struct page *p, const struct report *r)
{
	struct sentence s = { 0 };
	size_t cnt = 0;

	for (size_t i = 0; i < r->probes.symbols_cnt; i++) {
		char name[TEXT_BYTES_MAX];

		if (!is_silent(&r->probes.symbols[i]) || cnt++ >= SILENT_SHOWN)
			continue;
		text_fit(name, sizeof(name), r->probes.symbols[i].name, 60);
		sentence__add(&s, "%s%s", s.len ? ", " : "", name);
	}
	if (!cnt)
		return;
	sentence__add(&s, "%s: set, and the program never came there (docs/usdt.md)", cnt > SILENT_SHOWN ? ", …" : "");
	page__para(p, "never hit", s.text);
}

/* Lines that their files did not explain when they were looked up, if they have more than 1 % of the bytes. */
static void put_generated(struct page *p, const struct report *r)
{
	uint64_t bytes = 0, all = 0;
	char a[24];
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
	page__paraf(p, "generated code", "%zu line%s that allocated %s: their files said nothing of them (gone, edited, or not "
		    "to be read), so operators are '%s', categories blurred, and phases may be missing; a "
		    "TORCHINDUCTOR_CACHE_DIR that stays keeps them", lines, lines == 1 ? "" : "s", fmt_bytes(a, bytes),
		    EV_PLACE_NOT_KNOWN);
}

static void put_visible(struct page *p, const struct report *r)
{
	struct source_sum sums[SOURCES_MAX];
	size_t cnt = sum_sources(r, sums);
	struct sentence s = { .text = "nothing: no probe was set" };

	for (size_t i = 0; i < cnt && s.len < sizeof(s.text) - 128; i++) {
		char name[TEXT_BYTES_MAX];

		text_fit(name, sizeof(name), sums[i].name, 30);
		sentence__add(&s, "%s%s %" PRIu64 " of %" PRIu64, s.len ? ", " : "", name, sums[i].attached, sums[i].found);
		if (sums[i].pids > 1)
			sentence__add(&s, " (in %" PRIu64 " processes)", sums[i].pids);
	}
	if (r->probes.symbols_cnt) {
		size_t fired = 0;

		for (size_t i = 0; i < r->probes.symbols_cnt; i++)
			fired += r->probes.symbols[i].fired > 0;
		sentence__add(&s, "; %zu of %zu symbols fired (--by symbol)", fired, r->probes.symbols_cnt);
	}
	page__para(p, "probes set", s.text);
	put_silent(p, r);
	put_attach(p, r);
	put_idle(p, r);
	for (size_t i = 0; i < r->run.notes_cnt && i < NOTES_SHOWN; i++)
		page__para(p, i ? "" : "not visible", r->run.notes[i]);
	if (r->run.notes_cnt > NOTES_SHOWN)
		page__paraf(p, "", "… and %zu more notes (--json)", r->run.notes_cnt - NOTES_SHOWN);
}

void view_coverage(struct page *p, const struct report *r)
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

static void put_measured(struct sentence *s, const struct report *r)
{
	char a[24], b[24];

	if (r->sampling.is_on) {
		sentence__add(s, "%s of the job's time", fmt_share(a, r->sampling.price_ratio, 1));
		if (r->sampling.budget > 0) /* a short session does not make up for its attach */
			sentence__add(s, " (%.3g %% in the long run)", 100 * r->sampling.budget);
	} else if (report_price__is_known(&r->cost.price) && !verdict_price_is_others(r)) {
		sentence__add(s, "%s of the job's speed, give or take %s", fmt_share(a, r->cost.price.lost, 1),
			      fmt_share(b, r->cost.price.error, 1));
	} else if (r->cost.target_cpu_ns) {
		sentence__add(s, "%s of the job's CPU time", fmt_share(a, r->cost.share, 1));
	} else {
		sentence__add(s, "%s hits", fmt_count(a, (double)r->cost.hits));
	}
}

void view_coverage_short(struct page *p, const struct report *r)
{
	const char *end = report_end_word(r);
	uint64_t lost = report_lost_sum(r);
	char a[24], b[24], c[24];
	struct sentence s = { 0 };

	page__heading(p, "What this rests on");
	page__paraf(p, "covered", "%s, %s%s%s, %s events, lost %s", fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns),
		    r->run.ended ? "to the end (" : r->run.is_live ? "it goes on" : "the end is missing",
		    !r->run.ended ? "" : !strcmp(end, "target gone") ? "the process ended" : end, r->run.ended ? ")" : "",
		    fmt_count(b, (double)report_events_sum(r)), lost ? fmt_count(c, (double)lost) : "nothing");
	put_pauses(p, r);
	if (lost)
		put_lost_rows(p, r);
	put_generated(p, r);
	put_measured(&s, r);
	sentence__add(&s, "; memtrace itself %s of a core, %s RSS",
		      fmt_share(a, (double)r->cost.self_cpu_ns, (double)report_seen_ns(r)),
		      fmt_bytes(b, r->cost.self_rss));
	page__para(p, "tracing cost", s.text);
	if (r->run.notes_cnt)
		page__paraf(p, "not visible", "%zu note%s (-v)", r->run.notes_cnt, r->run.notes_cnt == 1 ? "" : "s");
}
