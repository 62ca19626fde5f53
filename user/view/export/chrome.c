/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * chrome: JSON of the Trace Event Format, for chrome://tracing, ui.perfetto.dev and readers of
 * torch.profiler's traces. Times are µs (with three decimals) since baseTimeNanoseconds, as in those: a
 * double does not hold ns since the epoch.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/map.h"
#include "event/event.h"
#include "timeline/labels.h"
#include "view/export.h"
#include "view/fold/feed.h"
#include "view/fold/name_cache.h"
#include "view/json.h"
#include "view/report_words.h"

#define NAMED_MAX 65536u /* blocks with a name at a time; further ones are not shown as such */

/* A block with a name that is open. */
struct named {
	uint64_t id;
	name_id path;
	uint32_t pid;
};

struct export_ctx {
	struct outbuf o;
	struct name_cache names;
	struct feed *feed;
	const struct export_to *to;
	uint32_t *has_counter; /* by lane: bits of enum category: a band that was there once is always written */
	struct map named;      /* struct named */
	uint64_t base_ns, base_epoch_ns, last_ns;
	int has_head, has_gaps;
	uint64_t cnt;
	char keys[CAT_MAX][40]; /* ,"PARAMETER": */
	size_t keys_len[CAT_MAX];
};

static inline void put_us(struct export_ctx *c, const char *key, uint64_t ns)
{
	outbuf__str(&c->o, key);
	outbuf__u64(&c->o, ns / 1000);
	outbuf__char(&c->o, '.');
	outbuf__char(&c->o, (char)('0' + ns / 100 % 10));
	outbuf__char(&c->o, (char)('0' + ns / 10 % 10));
	outbuf__char(&c->o, (char)('0' + ns % 10));
}

/* Up to its name. */
static void put_head(struct export_ctx *c, char phase, uint32_t pid, uint32_t tid)
{
	outbuf__str(&c->o, c->cnt++ ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	outbuf__char(&c->o, phase);
	outbuf__lit_u64(&c->o, "\",\"pid\":", pid);
	outbuf__lit_u64(&c->o, ",\"tid\":", tid);
}

static uint64_t rel(const struct export_ctx *c, uint64_t ts_ns)
{
	return ts_ns > c->base_ns ? ts_ns - c->base_ns : 0;
}

static void on_process(struct export_ctx *c, uint32_t pid)
{
	const struct report *r = c->to->report;

	for (size_t i = 0; r && i < r->procs_cnt; i++) {
		const char *comm = r->procs[i].comm;

		if (r->procs[i].pid != pid || !comm)
			continue;
		put_head(c, 'M', pid, 0);
		outbuf__lit(&c->o, ",\"name\":\"process_name\",\"args\":{\"name\":");
		json_quote(&c->o, comm, strlen(comm));
		outbuf__lit(&c->o, "}}");
		return;
	}
}

static void put_counter(struct export_ctx *c, const struct lane *l, uint64_t ts_ns)
{
	size_t is_first = 1;

	put_head(c, 'C', l->pid, 0);
	put_us(c, ",\"ts\":", rel(c, ts_ns));
	outbuf__lit(&c->o, ",\"name\":\"");
	outbuf__str(&c->o, c->names.dev_names[l->dev]);
	outbuf__lit(&c->o, " memory\",\"args\":{");
	for (unsigned cat = 0; cat < CAT_MAX; cat++) {
		if (!(c->has_counter[l->idx] & 1u << cat))
			continue;
		outbuf__put(&c->o, c->keys[cat] + is_first, c->keys_len[cat] - is_first);
		outbuf__u64(&c->o, l->shown[cat]);
		is_first = 0;
	}
	outbuf__lit(&c->o, "}}");
}

static void on_counter(struct export_ctx *c, const struct lane *l, const struct live_change *ch, uint64_t ts_ns)
{
	if (ch->to < CAT_MAX)
		c->has_counter[l->idx] |= 1u << ch->to;
	put_counter(c, l, ts_ns);
}

static void on_again(struct export_ctx *c, const struct lane *l, uint64_t ts_ns)
{
	for (unsigned cat = 0; cat < CAT_MAX; cat++)
		if (l->shown[cat])
			c->has_counter[l->idx] |= 1u << cat;
	if (c->has_counter[l->idx])
		put_counter(c, l, ts_ns);
}

/* Bytes allocated in it; in an operator and in backward also the module and the phase. */
static void put_made(struct export_ctx *c, const struct open_made *m, int is_region)
{
	if (!m->bytes)
		return;
	outbuf__lit_u64(&c->o, ",\"args\":{\"bytes\":", m->bytes);
	if (!is_region && m->root.v) {
		outbuf__lit(&c->o, ",\"module\":");
		name_cache__put(&c->names, &c->o, m->module);
		outbuf__lit(&c->o, ",\"module_root\":");
		name_cache__put(&c->names, &c->o, m->root);
	}
	if (!is_region && m->phase != PHASE_OTHER) {
		outbuf__lit(&c->o, ",\"phase\":\"");
		outbuf__str(&c->o, phase_name((enum phase)m->phase));
		outbuf__char(&c->o, '"');
	}
	outbuf__char(&c->o, '}');
}

static void on_end(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number, const struct stack_node *n,
		   const struct open_frame *e, uint64_t ts_ns)
{
	(void)number;
	put_head(c, 'X', pid, tid);
	put_us(c, ",\"ts\":", rel(c, e->ts_ns));
	put_us(c, ",\"dur\":", ts_ns - e->ts_ns);
	outbuf__str(&c->o, n->kind == STACK_OP	 ? ",\"cat\":\"operator\",\"name\":" :
			   n->kind == STACK_NODE ? ",\"cat\":\"backward\",\"name\":" :
						   ",\"cat\":\"region\",\"name\":");
	name_cache__put(&c->names, &c->o, (name_id){ n->value });
	put_made(c, &e->made, n->kind == STACK_REGION);
	outbuf__char(&c->o, '}');
}

/* Thread 0 of the process: no thread has that number. */
static void on_step(struct export_ctx *c, uint32_t pid, uint64_t number, uint64_t begin_ts_ns, uint64_t ts_ns)
{
	put_head(c, 'X', pid, 0);
	put_us(c, ",\"ts\":", rel(c, begin_ts_ns));
	put_us(c, ",\"dur\":", ts_ns - begin_ts_ns);
	outbuf__lit_u64(&c->o, ",\"cat\":\"step\",\"name\":\"step ", number);
	outbuf__lit(&c->o, "\"}");
}

/* Of process 0, which does not exist: it is memtrace's own line. */
static void on_gap(struct export_ctx *c, const char *what, uint64_t begin_ts_ns, uint64_t ts_ns)
{
	if (!c->has_gaps) {
		put_head(c, 'M', 0, 0);
		outbuf__lit(&c->o, ",\"name\":\"process_name\",\"args\":{\"name\":\"memtrace\"}}");
	}
	c->has_gaps = 1;
	put_head(c, 'X', 0, 0);
	put_us(c, ",\"ts\":", rel(c, begin_ts_ns));
	put_us(c, ",\"dur\":", ts_ns - begin_ts_ns);
	outbuf__lit(&c->o, ",\"cat\":\"gap\",\"name\":\"");
	outbuf__str(&c->o, what);
	outbuf__lit(&c->o, "\"}");
}

static void on_oom(struct export_ctx *c, const struct tl_event *ev)
{
	put_head(c, 'i', ev->pid, ev->tid);
	put_us(c, ",\"ts\":", rel(c, ev->ts_ns));
	outbuf__lit(&c->o, ",\"s\":\"p\",\"name\":\"out of memory\",\"args\":{\"device\":\"");
	outbuf__str(&c->o, c->names.dev_names[ev->dev]);
	outbuf__lit_u64(&c->o, "\",\"bytes\":", ev->size);
	outbuf__lit(&c->o, "}}");
}

static void on_mark(struct export_ctx *c, const struct tl_event *ev)
{
	put_head(c, 'i', ev->pid, ev->tid);
	put_us(c, ",\"ts\":", rel(c, ev->ts_ns));
	outbuf__lit(&c->o, ",\"s\":\"p\",\"cat\":\"mark\",\"name\":\"");
	outbuf__str(&c->o, mark_name((enum tl_mark)ev->version));
	outbuf__char(&c->o, '"');
	if (ev->version == MARK_STEP) {
		outbuf__lit_u64(&c->o, ",\"args\":{\"step\":", ev->ptr);
		outbuf__char(&c->o, '}');
	}
	outbuf__char(&c->o, '}');
}

/* The time of a compilation; those that began before the trace are not shown. */
static void on_compiled(struct export_ctx *c, const struct tl_event *ev)
{
	if (ev->begin_ns < c->base_ns)
		return;
	put_head(c, 'X', ev->pid, 0);
	put_us(c, ",\"ts\":", rel(c, ev->begin_ns));
	put_us(c, ",\"dur\":", ev->took_ns);
	outbuf__str(&c->o, ev->compiled & EV_COMPILED_AGAIN ? ",\"cat\":\"compile\",\"name\":\"recompile\",\"args\":{\"id\":" :
							   ",\"cat\":\"compile\",\"name\":\"compile\",\"args\":{\"id\":");
	name_cache__put(&c->names, &c->o, ev->compile_id);
	outbuf__lit(&c->o, ",\"function\":");
	name_cache__put(&c->names, &c->o, ev->function);
	outbuf__lit(&c->o, ",\"reason\":");
	name_cache__put(&c->names, &c->o, ev->reason);
	if (ev->id != TL_SIZE_UNKNOWN)
		outbuf__lit_u64(&c->o, ",\"bytes\":", ev->id);
	outbuf__str(&c->o, ev->depth & EV_COMPILED_BACKWARD ? ",\"backward\":true}}" : ",\"backward\":false}}");
}

/* --- Python's names of blocks: nestable asynchronous events, by the block's id --------------------------------- */

static void put_async(struct export_ctx *c, char phase, uint32_t pid, uint64_t id, name_id name, uint64_t ts_ns)
{
	put_head(c, phase, pid, 0);
	put_us(c, ",\"ts\":", rel(c, ts_ns));
	outbuf__lit(&c->o, ",\"cat\":\"tensor\",\"id\":\"");
	outbuf__hex(&c->o, id);
	outbuf__lit(&c->o, "\",\"name\":");
	name_cache__put(&c->names, &c->o, name);
}

static void named_begin(struct export_ctx *c, const struct tl_event *ev, const struct labels_name *n)
{
	struct named *row = c->named.cnt < NAMED_MAX ? map__put(&c->named, ev->id) : NULL;

	if (!row)
		return;
	row->path = n->path;
	row->pid = ev->pid;
	put_async(c, 'b', ev->pid, ev->id, n->path, ev->ts_ns);
	outbuf__lit(&c->o, ",\"args\":{\"kind\":\"");
	outbuf__str(&c->o, tensor_kind_key(n->kind));
	outbuf__lit(&c->o, "\",\"root\":");
	name_cache__put(&c->names, &c->o, n->root);
	if (n->key.v) {
		outbuf__lit(&c->o, ",\"state\":");
		name_cache__put(&c->names, &c->o, n->key);
	}
	outbuf__lit(&c->o, ",\"type\":");
	name_cache__put(&c->names, &c->o, n->type);
	outbuf__lit_u64(&c->o, ",\"bytes\":", ev->size);
	outbuf__lit(&c->o, ",\"device\":\"");
	outbuf__str(&c->o, c->names.dev_names[ev->dev]);
	outbuf__lit(&c->o, "\"}}");
}

static void put_named(struct export_ctx *c, const struct tl_event *ev)
{
	int is_alloc = ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING;
	struct labels_name n;
	struct named *row;

	if ((!is_alloc && ev->kind != TL_DESTROY) || (c->to->dev >= 0 && ev->dev != c->to->dev) || !ev->id || !c->to->labels ||
	    ev->size == TL_SIZE_UNKNOWN || !labels__name(c->to->labels, ev->id, &n))
		return;
	row = map__find(&c->named, ev->id);
	if (is_alloc && !row) {
		named_begin(c, ev, &n);
	} else if (!is_alloc && row) {
		put_async(c, 'e', row->pid, ev->id, row->path, ev->ts_ns);
		outbuf__char(&c->o, '}');
		map__remove(&c->named, row);
	}
}

/* The last look into the map: its rows are put in order. */
static void end_named(struct export_ctx *c)
{
	if (c->named.cnt)
		qsort(c->named.rows, c->named.cnt, c->named.size, u64_cmp);
	for (uint32_t i = 0; i < c->named.cnt; i++) {
		const struct named *row = map__at(&c->named, i);

		put_async(c, 'e', row->pid, row->id, row->path, c->last_ns);
		outbuf__char(&c->o, '}');
	}
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

static void put_file_head(struct export_ctx *c)
{
	c->has_head = 1;
	outbuf__lit_u64(&c->o, "{\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":", c->base_epoch_ns);
	outbuf__lit(&c->o, ",\"otherData\":{\"recorder\":\"memtrace " MT_VERSION "\"},\"traceEvents\":[");
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	int r;

	if (!c->has_head) {
		c->base_ns = ev->ts_ns;
		c->base_epoch_ns = ev->ts_ns + (uint64_t)epoch_off_ns;
		put_file_head(c);
	}
	r = feed__event(c->feed, ev);
	if (ev->kind <= TL_DESTROY) {
		c->last_ns = ev->ts_ns > c->last_ns ? ev->ts_ns : c->last_ns;
		put_named(c, ev);
	}
	return r ? r : c->o.err;
}

/* A slice is written as a whole when it ends; a thread is named by its number already. */
static const struct feed_ops ops = {
	.process = on_process, .counter = on_counter, .end = on_end, .step = on_step, .oom = on_oom, .mark = on_mark,
	.compiled = on_compiled,
	.gap = on_gap, .again = on_again,
};

static void done(struct export_ctx *c)
{
	feed__free(c->feed);
	name_cache__done(&c->names);
	map__done(&c->named);
	free(c->has_counter);
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	c->to = to;
	name_cache__init(&c->names, to->names, json_quote);
	for (unsigned cat = 0; cat < CAT_MAX; cat++)
		c->keys_len[cat] = (size_t)snprintf(c->keys[cat], sizeof(c->keys[cat]), ",\"%s\":",
						    category_name((enum category)cat));
	c->named = MAP_OF(struct named);
	c->has_counter = calloc(LANES_MAX + 256, sizeof(*c->has_counter));
	return !c->has_counter || feed__new(&c->feed, to, &ops, c) ? -ENOMEM : 0;
}

static int end(struct export_ctx *c, const struct report *r)
{
	if (!r)
		return 0;
	if (!c->has_head)
		put_file_head(c);
	feed__end(c->feed);
	end_named(c);
	outbuf__lit(&c->o, "\n]}\n");
	return 0;
}

const struct export_format export_chrome = {
	.name = "chrome",
	.help = "JSON trace events, for chrome://tracing and Perfetto: counters by category, steps, regions, operators (--ops)",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_MARKS | EXPORT_COMPILES | EXPORT_GAPS | EXPORT_PART,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
