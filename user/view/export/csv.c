/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* CSV (view/csv.h). The columns are those of the JSON Lines export; values that a record lacks are empty. */
#include "timeline/labels.h"
#include "view/csv.h"
#include "view/export/rows.h"
#include "view/report_words.h"

static int begin(struct export_ctx *c, const struct export_to *to)
{
	name_cache__init(&c->names, to->names, csv_quote);
	c->to = to;
	outbuf__lit(&c->o, "t,ev,dev,ptr,size,id,version,cat,op,region,tid,pid,step,depth,tag,mark,"
			   "module,module_root,phase,name,root,kind,state,type,ns,learned\r\n");
	return export_rows__begin(c);
}

/* ,dev,ptr,size,id,version,cat */
static void put_block(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;

	outbuf__char(o, ',');
	outbuf__str(o, c->names.dev_names[ev->dev]);
	outbuf__char(o, ',');
	if (ev->kind != TL_OOM)
		outbuf__hex(o, ev->ptr);
	outbuf__char(o, ',');
	if (ev->size != TL_SIZE_UNKNOWN)
		outbuf__u64(o, ev->size);
	if (ev->kind == TL_OOM) {
		outbuf__lit(o, ",,,");
		return;
	}
	outbuf__char(o, ',');
	outbuf__u64(o, ev->id);
	outbuf__char(o, ',');
	outbuf__u64(o, ev->version);
	outbuf__char(o, ',');
	outbuf__str(o, ev->learned ? tl_cat_name(ev->learned->cat) : export_rows__cat(c, ev));
}

static void put_name(struct export_ctx *c, name_id name)
{
	outbuf__char(&c->o, ',');
	if (name.v)
		name_cache__put(&c->names, &c->o, name);
}

/* learned: category, operator, region and these are a similar block's, not measured (docs/sampling.md). */
/* ,module,module_root,phase: of the forward or backward that made it; ,name,root,kind,state,type: its name in Python */
static void put_python(struct export_ctx *c, const struct tl_event *ev, int is_block)
{
	const struct tl_learned measured = { .module = ev->module, .root = ev->root, .phase = ev->phase };
	const struct tl_learned *is = ev->learned ? ev->learned : &measured;
	int is_life = ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING || ev->kind == TL_DESTROY;
	struct outbuf *o = &c->o;
	struct labels_name n;

	put_name(c, is_life && is->root.v ? is->module : NAME_NONE);
	put_name(c, is_life ? is->root : NAME_NONE);
	outbuf__char(o, ',');
	if (is_life && is->phase != PHASE_OTHER)
		outbuf__str(o, phase_name((enum phase)is->phase));
	if (!is_block || !ev->id || !c->to->labels || !labels__name(c->to->labels, ev->id, &n)) {
		outbuf__lit(o, ",,,,,");
		return;
	}
	put_name(c, n.path);
	put_name(c, n.root);
	outbuf__char(o, ',');
	outbuf__str(o, tensor_kind_key(n.kind));
	put_name(c, n.key);
	put_name(c, n.type);
}

static int is_reported(const struct export_ctx *c, const struct tl_event *ev)
{
	if (ev->kind == TL_MARK)
		return c->to->ops;
	return export_rows__has(c, ev) && ev->kind != TL_NODE; /* a node's blocks are no columns */
}

/* Columns: time = start, size = peak bytes added, name = compile id, ns = duration. */
static void put_compiled(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct outbuf *o = &c->o;

	outbuf__u64(o, ev->begin_ns + (uint64_t)epoch_off_ns);
	outbuf__str(o, ev->compiled & EV_COMPILED_AGAIN ? ",recompile,,," : ",compile,,,");
	if (ev->added != TL_SIZE_UNKNOWN)
		outbuf__u64(o, ev->added);
	outbuf__lit(o, ",,,");
	put_name(c, ev->function);
	put_name(c, ev->reason);
	outbuf__lit_u64(o, ",,", ev->pid);
	outbuf__char(o, ',');
	if (ev->step)
		outbuf__u64(o, ev->step);
	outbuf__str(o, ev->compiled & EV_COMPILED_BACKWARD ? ",,,,,,backward" : ",,,,,,forward");
	put_name(c, ev->compile_id);
	outbuf__lit_u64(o, ",,,,,", ev->took_ns);
	outbuf__lit(o, ",\r\n");
}

/* gap_begin: what follows is unknown, until gap_end. It is of no thread. */
static void put_gap(struct outbuf *o, const struct tl_event *ev, int64_t epoch_off_ns)
{
	outbuf__u64(o, ev->ts_ns + (uint64_t)epoch_off_ns);
	outbuf__str(o, ev->version ? ",gap_begin" : ",gap_end");
	outbuf__lit(o, ",,,,,,,,,,,,,,,,,,,,,,,,\r\n");
}

static void put_row(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	const name_id op = ev->learned ? ev->learned->op : ev->op, region = ev->learned ? ev->learned->region : ev->region;
	int is_block = export_rows__is_block(ev);
	struct outbuf *o = &c->o;

	outbuf__u64(o, ev->ts_ns + (uint64_t)epoch_off_ns);
	outbuf__char(o, ',');
	outbuf__str(o, ev->kind == TL_MARK ? "mark" : tl_kind_name(ev->kind));
	if (is_block)
		put_block(c, ev);
	else
		outbuf__lit(o, ",,,,,,");
	outbuf__char(o, ',');
	if (op.v)
		name_cache__put(&c->names, o, op);
	put_name(c, ev->kind == TL_TAG ? NAME_NONE : region);
	outbuf__char(o, ',');
	outbuf__u64(o, ev->tid);
	outbuf__char(o, ',');
	outbuf__u64(o, ev->pid);
	outbuf__char(o, ',');
	if (ev->kind == TL_STEP || (ev->kind == TL_MARK && ev->version == MARK_STEP))
		outbuf__u64(o, ev->ptr);
	outbuf__char(o, ',');
	if (!is_block && ev->kind != TL_STEP && ev->kind != TL_MARK)
		outbuf__u64(o, ev->depth);
	outbuf__char(o, ',');
	if (ev->region.v && ev->kind == TL_TAG)
		name_cache__put(&c->names, o, ev->region);
	outbuf__char(o, ',');
	if (ev->kind == TL_MARK)
		outbuf__str(o, mark_name((enum tl_mark)ev->version));
	put_python(c, ev, is_block);
	outbuf__str(o, ev->learned ? ",,true\r\n" : ",,\r\n");
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	if (ev->kind == TL_GAP)
		put_gap(&c->o, ev, epoch_off_ns);
	else if (ev->kind == TL_COMPILED)
		put_compiled(c, ev, epoch_off_ns);
	else if (!is_reported(c, ev))
		return 0;
	else
		put_row(c, ev, epoch_off_ns);
	return export_rows__put(c, ev, ev->learned);
}

const struct export_format export_csv = {
	.name = "csv",
	.help = "the same as a table with a header line (RFC 4180)",
	.needs = EXPORT_MARKS | EXPORT_COMPILES | EXPORT_GAPS | EXPORT_PART,
	.sorts = EXPORT_ROWS_SORTS,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = export_rows__end,
	.done = export_rows__done,
};
