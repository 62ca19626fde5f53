/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * perfetto: a trace of track events (protos/perfetto/trace of google/perfetto), for ui.perfetto.dev and
 * trace_processor. Packets follow each other, so the file can be cut anywhere between two.
 *
 * Tracks: a process has a group for each device with a counter a category and one for their sum
 * ("live"), one track of steps, and one a thread for regions, backward nodes and (--ops) operators.
 * A group of a process has a track for each tensor that Python has a name for, NAMED_MAX at most: a slice is a block of
 * that name (of a gradient one in each step). Stretches without tracing are slices of a track of their own, and counters
 * stay as they were. Times are ns of CLOCK_MONOTONIC; a clock snapshot relates them to the epoch.
 */
#include <errno.h>
#include <stdlib.h>

#include "event/event.h"
#include "timeline/labels.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/export/proto.h"
#include "view/fold/feed.h"
#include "view/fold/numbering.h"
#include "view/report_words.h"

/* Numbers of the fields, from the .proto files; messages in capitals. */
enum {
	TRACE_PACKET = 1,
	PACKET_CLOCK_SNAPSHOT = 6, PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12, PACKET_FLAGS = 13, PACKET_DEFAULTS = 59, PACKET_TRACK = 60, PACKET_FIRST = 87,
	SNAPSHOT_CLOCKS = 1, SNAPSHOT_PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2,
	DEFAULTS_CLOCK = 58,
	TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5, TRACK_COUNTER = 8,
	PROCESS_PID = 1, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2,
	COUNTER_UNIT = 3, UNIT_SIZE_BYTES = 3, COUNTER_SHARE_KEY = 7,
	EVENT_ANNOTATIONS = 4, EVENT_TYPE = 9, EVENT_NAME_IID = 10, EVENT_TRACK = 11, EVENT_CATEGORIES = 22, EVENT_NAME = 23,
	EVENT_COUNTER = 30, ANNOTATION_UINT = 3, ANNOTATION_STRING = 6, ANNOTATION_NAME = 10,
	TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4,
	INTERNED_EVENT_NAMES = 2, NAME_IID = 1, NAME_TEXT = 2,
	CLOCK_REALTIME_ID = 1, CLOCK_MONOTONIC_ID = 3, SEQUENCE = 1, FLAG_CLEARED = 1, FLAG_NEEDS = 2,
};

#define UUID(kind, n) ((uint64_t)(kind) << 56 | (uint64_t)(n))
#define UUID_PROCESS(pid) UUID(1, pid)
#define UUID_THREAD(number) UUID(2, number)
#define UUID_GROUP(lane) UUID(3, lane)
#define UUID_COUNTER(lane, cat) UUID(4, (uint64_t)(lane) << 8 | (cat))
#define UUID_STEPS(pid) UUID(5, pid)
#define UUID_NAMES(pid) UUID(6, pid)
#define UUID_NAMED(number) UUID(7, number)
#define UUID_GAPS UUID(8, 0)
#define NAMED_MAX 1024u
#define CAT_LIVE 255 /* the sum, beside enum category */

struct export_ctx {
	struct outbuf o;
	struct proto p;
	struct feed *feed;
	const struct export_to *to;
	uint8_t *is_interned; /* by number of the name */
	uint32_t interned_cnt;
	uint32_t *has_counter; /* by lane: bits of enum category */
	struct numbering named, named_pids; /* (process, kind, path, key of a state); processes that have such */
	uint64_t named_block[NAMED_MAX]; /* id of the block whose slice is open; 0: none is */
	uint64_t last_ts_ns;
	int err, has_begun, has_gaps;
};

static void packet_begin(struct export_ctx *c, uint64_t ts_ns)
{
	if (ts_ns)
		proto__u64(&c->p, PACKET_TIMESTAMP, ts_ns);
	proto__u64(&c->p, PACKET_SEQUENCE, SEQUENCE);
}

static void packet_end(struct export_ctx *c)
{
	int r = proto__flush(&c->p, &c->o, TRACE_PACKET);

	if (r && !c->err)
		c->err = r;
}

/* --- names ----------------------------------------------------------------------------------------- */

static int is_interned(struct export_ctx *c, uint32_t name)
{
	uint32_t cnt = name + name / 2 + 256;
	uint8_t *more;

	if (name < c->interned_cnt)
		return c->is_interned[name];
	more = realloc(c->is_interned, cnt);
	if (!more)
		return 0; /* it is written again each time */
	memset(more + c->interned_cnt, 0, cnt - c->interned_cnt);
	c->is_interned = more;
	c->interned_cnt = cnt;
	return 0;
}

static void put_interned(struct export_ctx *c, uint32_t name)
{
	char text[CLEAN_BYTES_MAX];
	size_t data, entry;

	if (is_interned(c, name))
		return;
	if (name < c->interned_cnt)
		c->is_interned[name] = 1;
	clean_name(text, c->to->names, (name_id){ name });
	data = proto__open(&c->p, PACKET_INTERNED);
	entry = proto__open(&c->p, INTERNED_EVENT_NAMES);
	proto__u64(&c->p, NAME_IID, name);
	proto__str(&c->p, NAME_TEXT, text);
	proto__close(&c->p, entry);
	proto__close(&c->p, data);
}

/* --- tracks ----------------------------------------------------------------------------------------- */

static size_t track_begin(struct export_ctx *c, uint64_t uuid, uint64_t parent, const char *name)
{
	size_t track;

	packet_begin(c, 0);
	track = proto__open(&c->p, PACKET_TRACK);
	proto__u64(&c->p, TRACK_UUID, uuid);
	if (parent)
		proto__u64(&c->p, TRACK_PARENT, parent);
	if (name)
		proto__str(&c->p, TRACK_NAME, name);
	return track;
}

static void track_end(struct export_ctx *c, size_t track)
{
	proto__close(&c->p, track);
	packet_end(c);
}

static void on_process(struct export_ctx *c, uint32_t pid)
{
	char name[CLEAN_BYTES_MAX] = "";
	const struct report *r = c->to->report;
	size_t track = track_begin(c, UUID_PROCESS(pid), 0, NULL), process = proto__open(&c->p, TRACK_PROCESS);

	for (size_t i = 0; r && i < r->procs_cnt && !name[0]; i++)
		if (r->procs[i].pid == pid && r->procs[i].comm)
			clean_text(name, sizeof(name), r->procs[i].comm, strlen(r->procs[i].comm));
	proto__u64(&c->p, PROCESS_PID, pid);
	if (name[0])
		proto__str(&c->p, PROCESS_NAME, name);
	proto__close(&c->p, process);
	track_end(c, track);
	track_end(c, track_begin(c, UUID_STEPS(pid), UUID_PROCESS(pid), "steps"));
}

static void on_thread(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number)
{
	size_t track = track_begin(c, UUID_THREAD(number), UUID_PROCESS(pid), NULL), thread;

	thread = proto__open(&c->p, TRACK_THREAD);
	proto__u64(&c->p, THREAD_PID, pid);
	proto__u64(&c->p, THREAD_TID, tid);
	proto__close(&c->p, thread);
	track_end(c, track);
}

static void put_counter_track(struct export_ctx *c, const struct lane *l, uint8_t cat)
{
	size_t counter, track = track_begin(c, UUID_COUNTER(l->idx, cat), UUID_GROUP(l->idx),
					    cat == CAT_LIVE ? "live" : category_name((enum category)cat));

	counter = proto__open(&c->p, TRACK_COUNTER);
	proto__u64(&c->p, COUNTER_UNIT, UNIT_SIZE_BYTES);
	proto__str(&c->p, COUNTER_SHARE_KEY, "memory");
	proto__close(&c->p, counter);
	track_end(c, track);
}

static void on_lane(struct export_ctx *c, const struct lane *l)
{
	char dev[16], name[32];

	snprintf(name, sizeof(name), "%s memory", dev_name(l->dev, dev));
	track_end(c, track_begin(c, UUID_GROUP(l->idx), UUID_PROCESS(l->pid), name));
	put_counter_track(c, l, CAT_LIVE);
}

/* --- events ----------------------------------------------------------------------------------------- */

static void put_counter(struct export_ctx *c, const struct lane *l, uint8_t cat, uint64_t ts_ns)
{
	size_t event;

	if (cat == CAT_MAX)
		return;
	if (cat != CAT_LIVE && !(c->has_counter[l->idx] & 1u << cat)) {
		c->has_counter[l->idx] |= 1u << cat;
		put_counter_track(c, l, cat);
	}
	packet_begin(c, ts_ns);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, TYPE_COUNTER);
	proto__u64(&c->p, EVENT_TRACK, UUID_COUNTER(l->idx, cat));
	proto__u64(&c->p, EVENT_COUNTER, cat == CAT_LIVE ? l->live : l->shown[cat]);
	proto__close(&c->p, event);
	packet_end(c);
}

static void on_counter(struct export_ctx *c, const struct lane *l, const struct live_change *ch, uint64_t ts_ns)
{
	put_counter(c, l, ch->from, ts_ns);
	put_counter(c, l, ch->to, ts_ns);
	if (ch->from == CAT_MAX || ch->to == CAT_MAX)
		put_counter(c, l, CAT_LIVE, ts_ns);
}

static void on_again(struct export_ctx *c, const struct lane *l, uint64_t ts_ns)
{
	for (uint8_t cat = 0; cat < CAT_MAX; cat++)
		if (l->shown[cat] || c->has_counter[l->idx] & 1u << cat)
			put_counter(c, l, cat, ts_ns);
	put_counter(c, l, CAT_LIVE, ts_ns);
}

static void on_begin(struct export_ctx *c, uint32_t number, const struct stack_node *n, uint64_t ts_ns)
{
	size_t event;

	packet_begin(c, ts_ns);
	proto__u64(&c->p, PACKET_FLAGS, FLAG_NEEDS);
	put_interned(c, n->value);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, TYPE_BEGIN);
	proto__u64(&c->p, EVENT_TRACK, UUID_THREAD(number));
	proto__u64(&c->p, EVENT_NAME_IID, n->value);
	proto__str(&c->p, EVENT_CATEGORIES, n->kind == STACK_OP ? "operator" : n->kind == STACK_NODE ? "backward" : "region");
	proto__close(&c->p, event);
	packet_end(c);
}

static void put_note(struct export_ctx *c, const char *name, const char *text, uint64_t number)
{
	size_t note = proto__open(&c->p, EVENT_ANNOTATIONS);

	proto__str(&c->p, ANNOTATION_NAME, name);
	if (text)
		proto__str(&c->p, ANNOTATION_STRING, text);
	else
		proto__u64(&c->p, ANNOTATION_UINT, number);
	proto__close(&c->p, note);
}

static void put_event(struct export_ctx *c, unsigned type, uint64_t track, uint64_t ts_ns, const char *name)
{
	size_t event;

	packet_begin(c, ts_ns);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, type);
	proto__u64(&c->p, EVENT_TRACK, track);
	if (name)
		proto__str(&c->p, EVENT_NAME, name);
	proto__close(&c->p, event);
	packet_end(c);
}

/* Bytes allocated in it, at its end; in an operator and in backward also the module and the phase. */
static void put_made(struct export_ctx *c, const struct open_made *m, int is_region)
{
	char path[CLEAN_BYTES_MAX], root[CLEAN_BYTES_MAX], text[2 * CLEAN_BYTES_MAX];

	if (!m->bytes)
		return;
	put_note(c, "bytes", NULL, m->bytes);
	if (!is_region && m->root.v) {
		clean_name(root, c->to->names, m->root);
		clean_name(path, c->to->names, m->module);
		snprintf(text, sizeof(text), "%s%s%s", root, path[0] ? "." : "", path);
		put_note(c, "module", text, 0);
	}
	if (!is_region && m->phase != PHASE_OTHER)
		put_note(c, "phase", phase_name((enum phase)m->phase), 0);
}

static void on_end(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number, const struct stack_node *n,
		   const struct open_frame *e, uint64_t ts_ns)
{
	size_t event;

	(void)pid;
	(void)tid;
	packet_begin(c, ts_ns);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, TYPE_END);
	proto__u64(&c->p, EVENT_TRACK, UUID_THREAD(number));
	put_made(c, &e->made, n->kind == STACK_REGION);
	proto__close(&c->p, event);
	packet_end(c);
}

static void on_step(struct export_ctx *c, uint32_t pid, uint64_t number, uint64_t begin_ts_ns, uint64_t ts_ns)
{
	char name[40];

	snprintf(name, sizeof(name), "step %llu", (unsigned long long)number);
	put_event(c, TYPE_BEGIN, UUID_STEPS(pid), begin_ts_ns, name);
	put_event(c, TYPE_END, UUID_STEPS(pid), ts_ns, NULL);
}

static void on_gap(struct export_ctx *c, const char *what, uint64_t begin_ts_ns, uint64_t ts_ns)
{
	if (!c->has_gaps)
		track_end(c, track_begin(c, UUID_GAPS, 0, "memtrace"));
	c->has_gaps = 1;
	put_event(c, TYPE_BEGIN, UUID_GAPS, begin_ts_ns, what);
	put_event(c, TYPE_END, UUID_GAPS, ts_ns, NULL);
}

static void on_mark(struct export_ctx *c, const struct tl_event *ev)
{
	size_t event;

	packet_begin(c, ev->ts_ns);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, TYPE_INSTANT);
	proto__u64(&c->p, EVENT_TRACK, UUID_STEPS(ev->pid));
	proto__str(&c->p, EVENT_CATEGORIES, "mark");
	proto__str(&c->p, EVENT_NAME, mark_name((enum tl_mark)ev->version));
	if (ev->version == MARK_STEP)
		put_note(c, "step", NULL, ev->ptr);
	put_note(c, "thread", NULL, ev->tid);
	proto__close(&c->p, event);
	packet_end(c);
}

/* On the track of steps, at its time; compilations that began before the trace are not shown. */
static void on_compiled(struct export_ctx *c, const struct tl_event *ev)
{
	const struct { const char *key; name_id name; } notes[] = { { "id", ev->compile_id },
								    { "function", ev->function },
								    { "reason", ev->reason } };
	char text[CLEAN_BYTES_MAX];
	size_t event;

	if (c->to->report && ev->begin_ns < c->to->report->run.start_ts_ns)
		return;
	packet_begin(c, ev->begin_ns);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, TYPE_INSTANT);
	proto__u64(&c->p, EVENT_TRACK, UUID_STEPS(ev->pid));
	proto__str(&c->p, EVENT_CATEGORIES, "compile");
	proto__str(&c->p, EVENT_NAME, ev->compiled & EV_COMPILED_AGAIN ? "recompile" : "compile");
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		clean_name(text, c->to->names, notes[i].name);
		put_note(c, notes[i].key, text, 0);
	}
	put_note(c, "ns", NULL, ev->took_ns);
	if (ev->added != TL_SIZE_UNKNOWN)
		put_note(c, "bytes", NULL, ev->added);
	proto__close(&c->p, event);
	packet_end(c);
}

static void on_oom(struct export_ctx *c, const struct tl_event *ev)
{
	size_t event, note;
	char dev[16];

	packet_begin(c, ev->ts_ns);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, TYPE_INSTANT);
	proto__u64(&c->p, EVENT_TRACK, UUID_PROCESS(ev->pid));
	proto__str(&c->p, EVENT_NAME, "out of memory");
	note = proto__open(&c->p, EVENT_ANNOTATIONS);
	proto__str(&c->p, ANNOTATION_NAME, "bytes asked for");
	proto__u64(&c->p, ANNOTATION_UINT, ev->size);
	proto__close(&c->p, note);
	note = proto__open(&c->p, EVENT_ANNOTATIONS);
	proto__str(&c->p, ANNOTATION_NAME, "device");
	proto__str(&c->p, ANNOTATION_STRING, dev_name(ev->dev, dev));
	proto__close(&c->p, note);
	proto__close(&c->p, event);
	packet_end(c);
}

/* --- Python's names of blocks --------------------------------------------------------------------------- */

/* The track's number; NAMED_MAX: none. */
static uint32_t named_track(struct export_ctx *c, uint32_t pid, const struct labels_name *n)
{
	uint64_t key = (uint64_t)pid << 42 | (uint64_t)(n->kind - 1) << 40 | (uint64_t)n->key.v << 20 | n->path.v;
	char path[CLEAN_BYTES_MAX], state[CLEAN_BYTES_MAX], name[2 * CLEAN_BYTES_MAX];
	uint32_t number;
	int is_new;

	number = numbering__get(&c->named, key, &is_new);
	if (!is_new || number >= NAMED_MAX)
		return number;
	(void)numbering__get(&c->named_pids, pid, &is_new);
	if (is_new)
		track_end(c, track_begin(c, UUID_NAMES(pid), UUID_PROCESS(pid), "named tensors"));
	clean_name(path, c->to->names, n->path);
	clean_name(state, c->to->names, n->key);
	snprintf(name, sizeof(name), "%s%s%s", n->key.v ? state : n->kind == EV_TENSOR_GRADIENT ? "gradient" : "",
		 n->key.v || n->kind == EV_TENSOR_GRADIENT ? " " : "", path);
	track_end(c, track_begin(c, UUID_NAMED(number), UUID_NAMES(pid), name));
	return number;
}

static void named_begin(struct export_ctx *c, const struct tl_event *ev, const struct labels_name *n, uint32_t number)
{
	char text[CLEAN_BYTES_MAX];
	size_t event;

	c->named_block[number] = ev->id;
	packet_begin(c, ev->ts_ns);
	event = proto__open(&c->p, PACKET_TRACK_EVENT);
	proto__u64(&c->p, EVENT_TYPE, TYPE_BEGIN);
	proto__u64(&c->p, EVENT_TRACK, UUID_NAMED(number));
	proto__str(&c->p, EVENT_CATEGORIES, "tensor");
	clean_name(text, c->to->names, n->type);
	proto__str(&c->p, EVENT_NAME, text);
	put_note(c, "bytes", NULL, ev->size);
	put_note(c, "kind", tensor_kind_words(n->kind), 0);
	clean_name(text, c->to->names, n->root);
	put_note(c, "of", text, 0);
	proto__close(&c->p, event);
	packet_end(c);
}

/* Of two blocks of one name at a time the first is shown. */
static void put_named(struct export_ctx *c, const struct tl_event *ev)
{
	int is_alloc = ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING;
	struct labels_name n;
	uint32_t number;

	if ((!is_alloc && ev->kind != TL_DESTROY) || (c->to->dev >= 0 && ev->dev != c->to->dev) || !ev->id || !c->to->labels ||
	    !labels__name(c->to->labels, ev->id, &n))
		return;
	number = named_track(c, ev->pid, &n);
	if (number >= NAMED_MAX)
		return;
	if (is_alloc && !c->named_block[number]) {
		named_begin(c, ev, &n, number);
	} else if (!is_alloc && c->named_block[number] == ev->id) {
		c->named_block[number] = 0;
		put_event(c, TYPE_END, UUID_NAMED(number), ev->ts_ns, NULL);
	}
}

static void end_named(struct export_ctx *c)
{
	for (uint32_t i = 0; i < c->named.cnt && i < NAMED_MAX; i++)
		if (c->named_block[i])
			put_event(c, TYPE_END, UUID_NAMED(i), c->last_ts_ns, NULL);
}

/* --- the whole ---------------------------------------------------------------------------------------- */

static void put_clock(struct export_ctx *c, unsigned id, uint64_t ts_ns)
{
	size_t clock = proto__open(&c->p, SNAPSHOT_CLOCKS);

	proto__u64(&c->p, CLOCK_ID, id);
	proto__u64(&c->p, CLOCK_TIMESTAMP, ts_ns);
	proto__close(&c->p, clock);
}

static void put_first(struct export_ctx *c, uint64_t ts_ns, int64_t epoch_off_ns)
{
	size_t part;

	packet_begin(c, 0);
	part = proto__open(&c->p, PACKET_CLOCK_SNAPSHOT);
	put_clock(c, CLOCK_MONOTONIC_ID, ts_ns);
	put_clock(c, CLOCK_REALTIME_ID, ts_ns + (uint64_t)epoch_off_ns);
	proto__u64(&c->p, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_ID);
	proto__close(&c->p, part);
	packet_end(c);
	packet_begin(c, 0);
	proto__u64(&c->p, PACKET_FLAGS, FLAG_CLEARED | FLAG_NEEDS);
	proto__u64(&c->p, PACKET_FIRST, 1);
	part = proto__open(&c->p, PACKET_DEFAULTS);
	proto__u64(&c->p, DEFAULTS_CLOCK, CLOCK_MONOTONIC_ID);
	proto__close(&c->p, part);
	packet_end(c);
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	int r;

	if (!c->has_begun)
		put_first(c, ev->ts_ns, epoch_off_ns);
	c->has_begun = 1;
	r = feed__event(c->feed, ev);
	if (!r && ev->kind <= TL_DESTROY) {
		c->last_ts_ns = ev->ts_ns > c->last_ts_ns ? ev->ts_ns : c->last_ts_ns;
		put_named(c, ev);
	}
	return r ? r : c->err;
}

static const struct feed_ops ops = {
	.process = on_process, .lane = on_lane, .counter = on_counter, .thread = on_thread, .begin = on_begin,
	.end = on_end, .step = on_step, .oom = on_oom, .mark = on_mark, .gap = on_gap, .again = on_again,
	.compiled = on_compiled,
};

static void done(struct export_ctx *c)
{
	feed__free(c->feed);
	proto__done(&c->p);
	numbering__done(&c->named);
	numbering__done(&c->named_pids);
	free(c->is_interned);
	free(c->has_counter);
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	c->to = to;
	c->has_counter = calloc(LANES_MAX + 256, sizeof(*c->has_counter));
	return !c->has_counter || feed__new(&c->feed, to, &ops, c) ? -ENOMEM : 0;
}

static int end(struct export_ctx *c, const struct report *r)
{
	if (r) {
		feed__end(c->feed);
		end_named(c);
	}
	return c->err;
}

const struct export_format export_perfetto = {
	.name = "perfetto",
	.help = "a trace for ui.perfetto.dev: counters by category, steps, regions, operators (--ops)",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_MARKS | EXPORT_COMPILES | EXPORT_GAPS | EXPORT_BINARY | EXPORT_PART,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
