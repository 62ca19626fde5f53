/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The document is made in memory first (it is bounded), because in a script element "</script" must not appear in any
 * name: < > & occur in JSON inside strings only, so each becomes its \u escape on the way out. Control characters,
 * U+2028 and U+2029 are escaped by json_quote already.
 */
#include "view/page/html_doc.h"

#include <errno.h>
#include <stdlib.h>

#include "event/event.h"
#include "timeline/labels.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/fold/icicle.h"
#include "view/fold/numbering.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/tables/coverage.h"

struct doc_out {
	const struct html_doc *d;
	struct outbuf o;
	struct json j;
	struct numbering numbers; /* of names, in order of appearance */
	name_id *order;
	uint32_t order_cnt, order_room;
	int err;
};

static uint64_t rel(const struct html_doc *d, uint64_t ts_ns)
{
	return ts_ns > d->report->run.start_ts_ns ? ts_ns - d->report->run.start_ts_ns : 0;
}

static void section(struct doc_out *x, const char *key, char open)
{
	outbuf__printf(&x->o, ",\n\"%s\":", key);
	json__init(&x->j, &x->o);
	json__begin_flat(&x->j, NULL, open);
}

/* Number in "names", from 1; 0: none. */
static uint32_t name_number(struct doc_out *x, name_id id)
{
	int is_new;
	uint32_t idx;

	if (!id.v)
		return 0;
	idx = numbering__get(&x->numbers, id.v, &is_new);
	if (idx < x->order_cnt)
		return idx + 1;
	if (x->order_cnt == x->order_room) {
		uint32_t room = x->order_room ? 2 * x->order_room : 256;
		name_id *more = realloc(x->order, room * sizeof(*more));

		if (!more) {
			x->err = -ENOMEM;
			return 0;
		}
		x->order = more;
		x->order_room = room;
	}
	x->order[x->order_cnt++] = id;
	return x->order_cnt;
}

/* --- lanes ----------------------------------------------------------------------------------------------- */

static void put_deltas(struct outbuf *o, const struct moment *m, size_t cnt, unsigned cat)
{
	uint64_t last = 0;

	outbuf__char(o, '[');
	for (size_t i = 0; i < cnt; i++) {
		if (i)
			outbuf__char(o, ',');
		outbuf__i64(o, (int64_t)(m[i].cats[cat] - last));
		last = m[i].cats[cat];
	}
	outbuf__char(o, ']');
}

static void put_times(struct doc_out *x, const struct moment *m, size_t cnt)
{
	uint64_t last = 0;

	outbuf__lit(&x->o, ",\"t\":[");
	for (size_t i = 0; i < cnt; i++) {
		if (i)
			outbuf__char(&x->o, ',');
		outbuf__u64(&x->o, rel(x->d, m[i].ts_ns) - last);
		last = rel(x->d, m[i].ts_ns);
	}
	outbuf__char(&x->o, ']');
}

static void put_cats(struct doc_out *x, const struct moment *m, size_t cnt)
{
	const char *sep = "";

	outbuf__lit(&x->o, ",\"cats\":{");
	for (unsigned cat = 0; cat < CAT_MAX; cat++) {
		size_t i = 0;

		while (i < cnt && !m[i].cats[cat])
			i++;
		if (i == cnt)
			continue;
		outbuf__printf(&x->o, "%s\"%s\":", sep, category_name((enum category)cat));
		put_deltas(&x->o, m, cnt, cat);
		sep = ",";
	}
	outbuf__char(&x->o, '}');
}

/* Pairs of time and highest live bytes, each from the one before. */
static void put_between(struct doc_out *x, const struct series *s)
{
	uint64_t t = 0, live = 0;

	outbuf__printf(&x->o, ",\"between\":{\"bucket\":%llu,\"rows\":[", (unsigned long long)s->bucket_ns);
	for (size_t i = 0; i < s->cnt; i++) {
		outbuf__str(&x->o, i ? "," : "");
		outbuf__i64(&x->o, (int64_t)(rel(x->d, s->points[i].ts_ns) - t));
		outbuf__char(&x->o, ',');
		outbuf__i64(&x->o, (int64_t)(s->points[i].live_max - live));
		t = rel(x->d, s->points[i].ts_ns);
		live = s->points[i].live_max;
	}
	outbuf__lit(&x->o, "]}");
}

static void put_lane(struct doc_out *x, const struct html_lane *l)
{
	char dev[16];
	uint64_t from, to;
	size_t cnt;
	const struct moment *m = l->moments ? moments__end(l->moments, &cnt) : l->list, *now, *peak;
	struct moment highest = { l->peak_ts_ns, l->peak, { 0 } }, none = { 0 };

	if (!m && l->moments) {
		x->err = -ENOMEM;
		return;
	}
	cnt = l->moments ? cnt : l->list_cnt;
	peak = l->moments ? moments__peak(l->moments) : &highest;
	now = l->moments ? moments__now(l->moments) : cnt ? &m[cnt - 1] : &none;
	outbuf__printf(&x->o, "{\"dev\":\"%s\",\"pid\":%u,\"live\":%llu,\"peak\":%llu,\"peak_t\":%llu",
		       dev_name(l->dev, dev), l->pid, (unsigned long long)now->live, (unsigned long long)peak->live,
		       (unsigned long long)(peak->live ? rel(x->d, peak->ts_ns) : 0));
	if (l->moments && moments__near(l->moments, &from, &to))
		outbuf__printf(&x->o, ",\"exact\":[%llu,%llu]", (unsigned long long)rel(x->d, from),
			       (unsigned long long)rel(x->d, to));
	put_times(x, m, cnt);
	put_cats(x, m, cnt);
	if (l->between)
		put_between(x, l->between);
	outbuf__char(&x->o, '}');
}

static void put_lanes(struct doc_out *x)
{
	const struct html_doc *d = x->d;
	const char *sep = "";

	outbuf__lit(&x->o, ",\n\"lanes\":[");
	for (size_t i = 0; i < d->lanes_cnt; i++) {
		outbuf__str(&x->o, sep);
		put_lane(x, &d->lanes[i]);
		sep = ",\n";
	}
	outbuf__printf(&x->o, "],\n\"lanes_left_out\":%llu", (unsigned long long)d->lanes_left_out);
}

/* --- bands ----------------------------------------------------------------------------------------------- */

static void put_band_list(struct doc_out *x, const char *key, const struct band_list *l, int has_numbers)
{
	json__begin(&x->j, key, '{');
	json__u64(&x->j, "count", l->reported);
	json__u64(&x->j, "ns", l->sum_ns);
	json__begin(&x->j, "rows", '[');
	for (uint32_t i = 0; i < l->cnt; i++) {
		const struct band *b = band_list__at(l, i);
		uint64_t from = rel(x->d, b->from_ns), to = rel(x->d, b->to_ns);

		json__begin(&x->j, NULL, '[');
		json__u64(&x->j, NULL, from);
		json__u64(&x->j, NULL, to > from ? to - from : 0);
		if (has_numbers)
			json__u64(&x->j, NULL, b->first);
		if (has_numbers && b->last != b->first)
			json__u64(&x->j, NULL, b->last);
		json__end(&x->j, ']');
	}
	json__end(&x->j, ']');
	json__end(&x->j, '}');
}

static void put_bands(struct doc_out *x)
{
	const struct bands *b = &x->d->bands;

	if (b->around_step) {
		section(x, "peak_step", '{');
		json__u64(&x->j, "t", rel(x->d, b->around_ns));
		json__u64(&x->j, "number", b->around_step);
		json__end(&x->j, '}');
	}
	section(x, "bands", '[');
	for (uint32_t i = 0; i < b->procs_cnt; i++) {
		json__begin(&x->j, NULL, '{');
		json__u64(&x->j, "pid", b->procs[i]->pid);
		put_band_list(x, "steps", &b->procs[i]->steps, 1);
		for (unsigned k = PHASE_OTHER + 1; k < PHASE_MAX; k++)
			put_band_list(x, phase_name((enum phase)k), &b->procs[i]->phases[k], 0);
		json__end(&x->j, '}');
	}
	json__end(&x->j, ']');
}

/* --- memory after each operator ----------------------------------------------------------------------------- */

#define PUT_LIST(x, key, i, cnt, value)                                       \
	do {                                                                  \
		outbuf__printf(&(x)->o, ",\"%s\":[", key);                    \
		for (uint64_t i = 0; i < (cnt); i++) {                        \
			if (i)                                                \
				outbuf__char(&(x)->o, ',');                   \
			outbuf__u64(&(x)->o, value);                          \
		}                                                             \
		outbuf__char(&(x)->o, ']');                                   \
	} while (0)

static void put_opmarks(struct doc_out *x, const struct opmark *marks, uint32_t cnt)
{
	static const uint8_t kinds[] = { [OPTRACE_FW_START] = MARK_FW_START, [OPTRACE_FW_BW_BOUNDARY] = MARK_FW_BW_BOUNDARY,
					 [OPTRACE_STEP] = MARK_STEP };

	outbuf__lit(&x->o, ",\"marks\":[");
	for (uint32_t i = 0; i < cnt; i++) {
		const char *name = mark_name((enum tl_mark)kinds[marks[i].kind]);

		outbuf__printf(&x->o, "%s[%llu,\"%s\"", i ? "," : "", (unsigned long long)marks[i].at, name);
		if (marks[i].kind == OPTRACE_STEP)
			outbuf__printf(&x->o, ",%llu", (unsigned long long)marks[i].number);
		outbuf__char(&x->o, ']');
	}
	outbuf__char(&x->o, ']');
}

static void put_opstep(struct doc_out *x, const struct opstep *s)
{
	outbuf__printf(&x->o, ",\"step\":{\"first\":%llu,\"ops\":%llu", (unsigned long long)s->first,
		       (unsigned long long)s->ops);
	if (s->has_number)
		outbuf__printf(&x->o, ",\"number\":%llu", (unsigned long long)s->number);
	PUT_LIST(x, "allocated", i, s->cnt, s->rows[i].allocated);
	if (optrace__has_totals(x->d->optrace))
		PUT_LIST(x, "reserved", i, s->cnt, s->rows[i].reserved);
	PUT_LIST(x, "created", i, s->cnt, s->rows[i].created);
	PUT_LIST(x, "op", i, s->cnt, name_number(x, s->rows[i].op));
	PUT_LIST(x, "phase", i, s->cnt, s->rows[i].phase);
	put_opmarks(x, s->marks, s->marks_cnt);
	outbuf__char(&x->o, '}');
}

static void put_optrace(struct doc_out *x)
{
	const struct opcolumns *c = &x->d->ops;
	uint64_t cnt = (c->ops + c->each - 1) / c->each;
	int has_totals = optrace__has_totals(x->d->optrace);
	char dev[16];

	outbuf__printf(&x->o, ",\n\"optrace\":{\"pid\":%u,\"dev\":\"%s\",\"totals\":%s,\"left_out\":%llu,\"ops\":%llu,"
		       "\"each\":%llu,\"marks_each\":%llu,\"phases\":[",
		       optrace__pid(x->d->optrace), dev_name(optrace__dev(x->d->optrace), dev), has_totals ? "true" : "false",
		       (unsigned long long)optrace__left_out(x->d->optrace), (unsigned long long)c->ops,
		       (unsigned long long)c->each, (unsigned long long)c->round_each);
	for (unsigned i = 0; i < PHASE_MAX; i++)
		outbuf__printf(&x->o, "%s\"%s\"", i ? "," : "", phase_name((enum phase)i));
	outbuf__char(&x->o, ']');
	PUT_LIST(x, "low", i, cnt, c->columns[i].allocated.low);
	PUT_LIST(x, "high", i, cnt, c->columns[i].allocated.high);
	if (has_totals)
		PUT_LIST(x, "reserved", i, cnt, c->columns[i].reserved.high);
	PUT_LIST(x, "op", i, cnt, name_number(x, c->columns[i].op));
	put_opmarks(x, c->marks, c->marks_cnt);
	if (c->most && c->most->ops)
		put_opstep(x, c->most);
	outbuf__char(&x->o, '}');
}

static void put_ooms(struct doc_out *x)
{
	char dev[16];

	section(x, "ooms", '[');
	for (size_t i = 0; i < x->d->ooms_cnt; i++) {
		const struct html_oom *m = &x->d->ooms[i];

		json__begin(&x->j, NULL, '{');
		json__u64(&x->j, "t", rel(x->d, m->ts_ns));
		json__u64(&x->j, "size", m->size);
		json__u64(&x->j, "pid", m->pid);
		json__str(&x->j, "dev", dev_name(m->dev, dev));
		json__end(&x->j, '}');
	}
	json__end(&x->j, ']');
	outbuf__printf(&x->o, ",\"ooms_all\":%llu", (unsigned long long)x->d->ooms_all);
}

/* --- blocks ---------------------------------------------------------------------------------------------- */

/* Its name in Python: kind, path, root, key of a state, type; and the module whose forward or backward made it, if known. */
static void put_python(struct doc_out *x, const struct block_life *b)
{
	struct labels_name n = { .kind = 0 };
	bool has_name = x->d->labels && labels__name(x->d->labels, b->id, &n);

	if (!has_name && !b->root.v)
		return;
	json__str(&x->j, NULL, has_name ? tensor_kind_key(n.kind) : "");
	json__u64(&x->j, NULL, name_number(x, n.path));
	json__u64(&x->j, NULL, name_number(x, n.root));
	json__u64(&x->j, NULL, name_number(x, n.key));
	json__u64(&x->j, NULL, name_number(x, n.type));
	if (b->root.v) {
		json__u64(&x->j, NULL, name_number(x, b->module));
		json__u64(&x->j, NULL, name_number(x, b->root));
	}
}

static void put_block(struct doc_out *x, const struct block_life *b)
{
	uint64_t allocated = rel(x->d, b->allocated_ns), freed = rel(x->d, b->freed_ns);
	char dev[16];

	json__begin(&x->j, NULL, '[');
	json__u64(&x->j, NULL, allocated);
	if (b->freed_ns)
		json__u64(&x->j, NULL, freed > allocated ? freed - allocated : 0);
	else
		json__null(&x->j, NULL);
	json__hex(&x->j, NULL, b->ptr);
	json__u64(&x->j, NULL, b->size);
	json__u64(&x->j, NULL, b->cat);
	json__u64(&x->j, NULL, name_number(x, b->op));
	json__u64(&x->j, NULL, name_number(x, b->region));
	json__u64(&x->j, NULL, b->pid);
	json__str(&x->j, NULL, dev_name(b->dev, dev));
	json__bool(&x->j, NULL, b->late);
	put_python(x, b);
	json__end(&x->j, ']');
}

static void put_blocks(struct doc_out *x)
{
	double all, kept;
	size_t cnt;
	const struct block_life *b = heaviest__end(x->d->blocks, x->d->report->run.end_ts_ns, &cnt);
	uint64_t allocated = heaviest__sums(x->d->blocks, &all, &kept);

	section(x, "blocks", '{');
	json__u64(&x->j, "all", allocated);
	json__f64(&x->j, "byte_ns", all);
	json__f64(&x->j, "byte_ns_shown", kept);
	json__begin(&x->j, "rows", '[');
	for (size_t i = 0; i < cnt; i++)
		put_block(x, &b[i]);
	json__end(&x->j, ']');
	json__end(&x->j, '}');
}

/* --- where it came from ---------------------------------------------------------------------------------- */

static void put_icicle(struct doc_out *x)
{
	struct icicle ic;
	const struct stacks *stacks = heapsum__stacks(x->d->heap);
	int r = icicle__init(&ic, x->d->heap, ICICLE_SHOWN);

	if (r) {
		x->err = r;
		return;
	}
	section(x, "icicle", '{');
	json__u64(&x->j, "nodes", ic.total);
	json__begin(&x->j, "rows", '[');
	for (size_t i = 0; i < ic.cnt; i++) {
		const struct icicle_row *r_ = &ic.rows[i];
		const struct ev_frame *f = r_->kind < STACK_PYTHON ? NULL :
			stacks__frame(stacks, &(struct stack_node){ .kind = r_->kind, .value = r_->value });
		int has_name = r_->kind > STACK_PROCESS;

		json__begin(&x->j, NULL, '[');
		json__u64(&x->j, NULL, r_->parent);
		json__u64(&x->j, NULL, r_->kind);
		json__u64(&x->j, NULL, f	? name_number(x, f->function) :
				       has_name ? name_number(x, (name_id){ r_->value }) :
						  r_->value);
		json__u64(&x->j, NULL, r_->at_peak);
		json__u64(&x->j, NULL, r_->live);
		json__u64(&x->j, NULL, r_->alloc_bytes);
		json__u64(&x->j, NULL, r_->alloc_count);
		if (f) {
			json__u64(&x->j, NULL, name_number(x, f->file));
			json__u64(&x->j, NULL, f->line);
		}
		json__end(&x->j, ']');
	}
	json__end(&x->j, ']');
	json__end(&x->j, '}');
	icicle__done(&ic);
}

static void put_names(struct doc_out *x)
{
	section(x, "names", '[');
	for (uint32_t i = 0; i < x->order_cnt; i++) {
		char text[NAME_SHOWN_BYTES];
		const char *name = names__get(x->d->names, x->order[i]);

		clean_text(text, sizeof(text), name, strlen(name));
		json__str(&x->j, NULL, text);
	}
	json__end(&x->j, ']');
}

/* --- the report's parts ---------------------------------------------------------------------------------- */

static int put_report(struct doc_out *x)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int r = f ? view_report_json(f, x->d->report, &(struct view_opts){ .is_brief = x->d->is_brief }) : -ENOMEM;

	if (f && fclose(f) && !r)
		r = -ENOMEM;
	if (!r) {
		outbuf__lit(&x->o, ",\n\"report\":");
		outbuf__put(&x->o, text, len);
	}
	free(text);
	return r;
}

/* The driver's layer and how the caching allocator uses it; devices without known values have no row. */
static void put_segments(struct doc_out *x)
{
	const struct report *r = x->d->report;
	char dev[16];

	section(x, "segments", '[');
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_segments *s = &r->devs[i].segs;

		if (!s->seen && !s->totals)
			continue;
		json__begin(&x->j, NULL, '{');
		json__str(&x->j, "dev", dev_name(r->devs[i].dev, dev));
		json__bool(&x->j, "seen", s->seen);
		json__bool(&x->j, "totals", s->totals);
		json__u64(&x->j, "live", s->live);
		json__u64(&x->j, "peak", s->peak);
		json__u64(&x->j, "cached", s->cached);
		json__u64(&x->j, "other", s->other);
		json__u64(&x->j, "blocks", r->devs[i].live);
		json__u64(&x->j, "allocated", s->allocated);
		json__u64(&x->j, "reserved", s->reserved);
		json__u64(&x->j, "reserved_peak", s->reserved_peak);
		json__u64(&x->j, "inactive", s->inactive);
		json__u64(&x->j, "free_cached", s->free_cached);
		json__u64(&x->j, "largest_free", s->largest_free);
		json__end(&x->j, '}');
	}
	json__end(&x->j, ']');
}

/* The block that ends the report for people, as [label, text] pairs. */
static int put_coverage(struct doc_out *x)
{
	struct page p;
	char *text = NULL, *line, *next;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int r = f ? page__init(&p, f, 1u << 20, 0) : -ENOMEM;

	if (!r) {
		view_coverage(&p, x->d->report);
		r = page__done(&p);
	}
	if (f && fclose(f) && !r)
		r = -ENOMEM;
	section(x, "honesty", '[');
	for (line = r ? NULL : text; line && *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (strncmp(line, "  ", 2) || strlen(line) <= LABEL_COLS)
			continue;
		line[LABEL_COLS - 1] = '\0';
		len = strcspn(line + 2, " ") ? strlen(line + 2) : 0;
		while (len && line[2 + len - 1] == ' ')
			line[2 + --len] = '\0';
		json__begin(&x->j, NULL, '[');
		json__str(&x->j, NULL, len ? line + 2 : "");
		json__str(&x->j, NULL, line + LABEL_COLS);
		json__end(&x->j, ']');
	}
	json__end(&x->j, ']');
	free(text);
	return r;
}

/* The moment that was asked for: the page opens with it. */
static void put_held(struct doc_out *x)
{
	char dev[16];

	section(x, "held", '{');
	json__u64(&x->j, "t", rel(x->d, x->d->at_ts_ns));
	json__str(&x->j, "dev", dev_name(x->d->at->dev, dev));
	json__str(&x->j, "at", x->d->at->text);
	json__end(&x->j, '}');
}

static int put_document(struct doc_out *x)
{
	int r;

	outbuf__printf(&x->o, "{\"schema\":1,\"version\":\"%s\",\"decisions\":%llu,\"first\":%llu", MT_VERSION,
		       (unsigned long long)x->d->events, (unsigned long long)rel(x->d, x->d->first_ts_ns));
	if (x->d->recording) {
		outbuf__lit(&x->o, ",\"recording\":");
		json_quote(&x->o, x->d->recording, strlen(x->d->recording));
	}
	if (x->d->at)
		put_held(x);
	section(x, "categories", '[');
	for (unsigned cat = 0; cat < CAT_MAX; cat++)
		json__str(&x->j, NULL, category_name((enum category)cat));
	json__end(&x->j, ']');
	r = put_report(x);
	put_lanes(x);
	put_bands(x);
	put_ooms(x);
	if (x->d->optrace && x->d->ops.ops)
		put_optrace(x);
	if (x->d->blocks)
		put_blocks(x);
	if (x->d->heap)
		put_icicle(x);
	put_segments(x);
	put_names(x);
	r = r ? r : put_coverage(x);
	outbuf__lit(&x->o, "}\n");
	return r ? r : x->err;
}

void html_put_escaped(struct outbuf *o, const char *text, size_t len)
{
	while (len) {
		size_t n = 0;

		while (n < len && text[n] != '<' && text[n] != '>' && text[n] != '&')
			n++;
		outbuf__put(o, text, n);
		if (n < len)
			outbuf__printf(o, "\\u%04x", (unsigned char)text[n++]);
		text += n;
		len -= n;
	}
}

int html_doc__write(struct html_doc *d, struct outbuf *o)
{
	struct doc_out x = { .d = d };
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int r;

	if (!f)
		return -ENOMEM;
	bands__end(&d->bands);
	r = outbuf__init(&x.o, f);
	if (!r) {
		r = put_document(&x);
		r = r ? r : outbuf__flush(&x.o);
		outbuf__done(&x.o);
	}
	if (fclose(f) && !r)
		r = -ENOMEM;
	if (!r)
		html_put_escaped(o, text, len);
	free(text);
	free(x.order);
	numbering__done(&x.numbers);
	return r;
}
