/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Whose forward or backward made a block, and in which phase, without annotations.
 *
 * Of a birth it is told just before it whose forward runs (EV_MODULE_AT), by the thread's Python frames. With a node of
 * backward open a module's forward is recomputation (activation checkpointing), and without one the block belongs to the
 * module whose forward made that node. Regions of optimizers are theirs. A thread is in a forward pass from the first
 * birth in a module until its process enters a node (fw_bw_boundary) or an optimizer: the loss is part of it. With
 * grad mode off, and no forward under way, it is evaluation.
 *
 * Where Python cannot be read, regions that tools/python's annotate() puts around forwards are modules as far as phases go.
 *
 * Births, nodes, regions and changes of module are looked at, nothing else: a phase begins with the first of them in it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/regions.h"
#include "event/event.h"
#include "model/state.h"
#include "timeline/report.h"

#define OPTIMIZER_PREFIX "Optimizer."
#define MODULE_PREFIX "nn.Module#"
#define LOADER_PREFIX "enumerate(DataLoader)#"

/* --- marks ---------------------------------------------------------------------------------------------------- */

static void mark(struct model *m, struct proc *p, uint32_t pid, uint32_t tid, enum tl_mark kind, uint64_t number)
{
	struct tl_event tl = { .ts_ns = m->now_ns, .kind = TL_MARK, .pid = pid, .tid = tid, .version = kind, .ptr = number };
	struct mark_at at = { m->now_ns, p->fw.live, p->fw.high };

	p->fw.high = p->fw.live;
	p->marks_cnt[kind]++;
	p->marks[kind] = at;
	step_marks__add(&p->step, kind, &at);
	modules__mark(&m->modules, &(struct mark){ at, number, pid, tid, (uint8_t)kind });
	model__tell(m, &tl);
}

static void end_step(struct model *m, uint32_t pid, uint32_t tid, struct proc *p)
{
	struct step_marks *s = &p->step;

	if (!p->listed)
		return;
	p->steps++;
	s->pid = pid;
	s->number = p->has_steps ? p->step_number : p->steps;
	mark(m, p, pid, tid, MARK_STEP, s->number);
	modules__step(&m->modules, s);
	if (!p->highest_step.pid || step_marks__peak(s) > step_marks__peak(&p->highest_step))
		p->highest_step = *s;
	*s = (struct step_marks){ .begin_ts_ns = m->now_ns };
}

/* --- phases --------------------------------------------------------------------------------------------------- */

static void set_phase(struct model *m, struct thread *t, enum phase now)
{
	struct phase_sum *old = &m->modules.phases[t->is_over ? PHASE_OTHER : t->phase];

	if (t->phase_ts_ns)
		old->ns += m->now_ns - t->phase_ts_ns;
	t->phase_ts_ns = m->now_ns;
	t->is_over = false;
	if (t->phase == now)
		return;
	t->phase = (uint8_t)now;
	m->modules.phases[now].entries++;
}

static bool is_in_forward(const struct thread *t)
{
	return t->phase == PHASE_FORWARD && t->forward_no == t->proc->forward_no;
}

static void enter_forward(struct model *m, struct thread *t)
{
	struct proc *p = t->proc;

	if (is_in_forward(t))
		return;
	set_phase(m, t, PHASE_FORWARD);
	t->forward_no = p->forward_no;
	if (!p->in_forward)
		mark(m, p, t->pid, t->tid, MARK_FW_START, 0);
	p->in_forward = true;
}

/* Forwards of other threads are over as well: backward of a GPU has a thread of its own. */
static void leave_forward(struct proc *p)
{
	p->forward_no += p->in_forward;
	p->in_forward = false;
}

static void enter_backward(struct model *m, struct thread *t)
{
	struct proc *p = t->proc;

	if (p->in_forward)
		mark(m, p, t->pid, t->tid, MARK_FW_BW_BOUNDARY, 0);
	leave_forward(p);
	p->has_node = true;
	set_phase(m, t, PHASE_BACKWARD);
}

static bool is_in_module(const struct thread *t)
{
	return t->module || t->module_regions;
}

/* With no node and no optimizer open, at a birth or a change of module. */
static enum phase phase_outside(const struct thread *t)
{
	const struct proc *p = t->proc;
	bool in_forward = is_in_forward(t);

	if (is_in_module(t))
		return t->no_grad && !in_forward ? PHASE_EVALUATION : PHASE_FORWARD;
	if (in_forward)
		return PHASE_FORWARD;
	if (t->phase == PHASE_EVALUATION && t->no_grad)
		return PHASE_EVALUATION;
	/* without modules, as in a job of functions alone: what follows the optimizer, less the next batch */
	if (!p->has_module && !t->loaders && p->has_node && (t->phase == PHASE_OPTIMIZER || t->phase == PHASE_FORWARD))
		return PHASE_FORWARD;
	return PHASE_OTHER;
}

static void look_at_phase(struct model *m, struct thread *t, bool in_node)
{
	enum phase now;

	if (in_node) {
		set_phase(m, t, is_in_module(t) ? PHASE_RECOMPUTE : PHASE_BACKWARD);
		return;
	}
	if (t->optimizers) {
		set_phase(m, t, PHASE_OPTIMIZER);
		return;
	}
	now = phase_outside(t);
	if (now == PHASE_FORWARD)
		enter_forward(m, t);
	else if (now != PHASE_OTHER || t->phase == PHASE_EVALUATION || t->phase == PHASE_FORWARD)
		set_phase(m, t, now);
}

/* What is born outside of all that is known is nobody's, though the phase before it may go on behind it. */
static enum phase phase_of_birth(const struct thread *t, bool in_node)
{
	bool is_inside = t->phase == PHASE_BACKWARD || t->phase == PHASE_RECOMPUTE || t->phase == PHASE_OPTIMIZER;

	return is_inside && !in_node && !t->optimizers ? PHASE_OTHER : t->phase;
}

/* As far as is known when it is entered: its first birth may tell more. */
enum phase model__phase_of_op(const struct thread *t, bool in_node)
{
	if (t->phase == PHASE_FORWARD && !is_in_forward(t))
		return PHASE_OTHER;
	return phase_of_birth(t, in_node);
}

void model__phase_node(struct model *m, struct thread *t)
{
	t->used_cnt = 0;
	enter_backward(m, t);
}

static bool begins_with(const struct model *m, name_id name, const char *prefix)
{
	return !strncmp(names__get(m->names, name), prefix, strlen(prefix));
}

/* Regions are as many as the thread says after the event. */
static void count_regions(struct thread *t)
{
	t->optimizers = t->module_regions = t->loaders = 0;
	for (unsigned i = 0; i < t->regions_cnt; i++) {
		t->optimizers += t->regions[i].is_optimizer;
		t->module_regions += t->regions[i].is_module;
		t->loaders += t->regions[i].is_loader;
	}
}

/* zero_grad() may stand between forward and backward. */
static void enter_optimizer(struct model *m, struct thread *t, bool is_step)
{
	if (is_step)
		leave_forward(t->proc);
	t->is_step = is_step;
	t->phase_around = t->phase;
	t->is_over_around = t->is_over;
	set_phase(m, t, PHASE_OPTIMIZER);
}

static void leave_optimizer(struct model *m, struct thread *t)
{
	if (t->is_step && !t->proc->has_steps)
		end_step(m, t->pid, t->tid, t->proc);
	set_phase(m, t, PHASE_OPTIMIZER); /* its time */
	if (t->is_step) {
		t->is_over = true;
		return;
	}
	t->phase = t->phase_around; /* which goes on: it is not entered again */
	t->is_over = t->is_over_around;
}

void model__phase_region(struct model *m, struct thread *t, const struct event *ev, bool begin)
{
	struct open_region *r = begin && t->regions_cnt ? &t->regions[t->regions_cnt - 1] : NULL;
	uint8_t before = t->optimizers;
	struct proc *p = t->proc;

	if (r && begins_with(m, ev->name, OPTIMIZER_PREFIX))
		r->is_optimizer = true;
	else if (r && begins_with(m, ev->name, MODULE_PREFIX))
		r->is_module = p->has_module = true;
	else if (r && begins_with(m, ev->name, LOADER_PREFIX))
		r->is_loader = true;
	count_regions(t);
	if (t->optimizers && !before)
		enter_optimizer(m, t, region_is_step(names__get(m->names, ev->name)));
	else if (before && !t->optimizers)
		leave_optimizer(m, t);
}

void model__phase_step(struct model *m, const struct event *ev, struct proc *p)
{
	if (p->has_steps) /* the one before it is over */
		end_step(m, ev->pid, ev->tid, p);
	else
		p->step = (struct step_marks){ .begin_ts_ns = m->now_ns };
	p->has_steps = true;
	p->step_number = ev->addr;
}

/* --- modules -------------------------------------------------------------------------------------------------- */

void model__module(struct model *m, const struct event *ev)
{
	const struct proc *p = procs__find(&m->procs, ev->pid);
	struct event told = *ev;

	if (!ev->pid || !ev->addr || (p && p->gone == 1))
		return;
	told.name.v = ev->name.v < NAMES_MAX ? ev->name.v : 0;
	told.root.v = ev->root.v < NAMES_MAX ? ev->root.v : 0;
	told.type.v = ev->type.v < NAMES_MAX ? ev->type.v : 0;
	if (!modules__define(&m->modules, &told))
		m->lost[MT_LOSS_NAMES]++;
}

static bool is_the_modules_own(const struct block *b)
{
	return b->cat == CAT_PARAMETER || b->cat == CAT_OPTIMIZER_STATE || b->cat == CAT_FROZEN || b->cat == CAT_BUFFER ||
	       b->named;
}

/* Made since modules are told of, or before the attach: else it may be this very module's. */
static bool is_origin_known(const struct proc *p, const struct block *b)
{
	return b->module || b->met || b->born_ts_ns > p->module_ts_ns;
}

/* Whose operator it was is known by now. */
static void settle_used(struct model *m, struct thread *t)
{
	bool is_forward = t->phase == PHASE_FORWARD || t->phase == PHASE_EVALUATION;

	for (unsigned i = 0; i < t->used_cnt && is_forward; i++) {
		struct block *b = blocks__find(m->blocks, t->pid, t->used[i].dev, t->used[i].ptr);

		if (b && b->id == t->used[i].id && !is_the_modules_own(b) && is_origin_known(t->proc, b))
			modules__used(&m->modules, b, t->module);
	}
	t->used_cnt = 0;
}

void model__module_at(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);
	bool full = false;
	uint32_t row;

	if (!t)
		return;
	row = modules__at(&m->modules, ev->pid, ev->addr, &full);
	m->lost[MT_LOSS_NAMES] += full;
	if (ev->flags & EV_MODULE_BACKWARD) {
		t->node_module = row;
		return;
	}
	/* of an operator before this one, which made nothing */
	if (t->used_cnt && !(ev->depth && t->depth && t->frames[0].seq == t->used_seq))
		settle_used(m, t);
	modules__enter(&m->modules, row, t->module);
	t->module = row;
	t->no_grad = ev->flags & MT_MODULE_NO_GRAD;
	if (row && !t->proc->has_module)
		t->proc->module_ts_ns = m->now_ns;
	t->proc->has_module |= row != 0;
	if (row)
		look_at_phase(m, t, thread__in_node(t, ev));
}

/*
 * Only operators of a forward: what a saved tensor is used for in backward is no output. An operator's arguments are told
 * when it begins, a change of module with what is born in it: so they wait for that, or for the next operator.
 */
void model__module_used(struct model *m, struct thread *t, const struct event *ev, const struct block *b)
{
	if (t->optimizers || thread__in_node(t, ev))
		return;
	if (ev->depth <= 1 && t->used_seq != ev->seq) { /* not one that an operator calls */
		settle_used(m, t);
		t->used_seq = ev->seq;
	}
	if (t->used_cnt < THREAD_USED_MAX)
		t->used[t->used_cnt++] = (struct used_block){ b->ptr, b->id, (uint8_t)b->dev };
}

void model__module_birth(struct model *m, struct thread *t, const struct event *ev, struct block *b)
{
	bool in_node = thread__in_node(t, ev);

	look_at_phase(m, t, in_node);
	if (t->used_cnt)
		settle_used(m, t);
	b->phase = phase_of_birth(t, in_node) & 7;
	b->module = (t->module ? t->module : in_node ? t->node_module : 0) & UINT16_MAX;
}

/* "layers.0.weight" is the module's at "layers.0". Of an optimizer's state path and root are the parameter's. */
uint32_t model__module_of_name(const struct model *m, uint32_t pid, const struct tensor *t)
{
	const char *path = names__get(m->names, t->path), *dot = strrchr(path, '.');
	char module[1024];
	name_id id = NAME_NONE;

	if (dot && (size_t)(dot - path) >= sizeof(module))
		return 0;
	if (dot) {
		memcpy(module, path, (size_t)(dot - path));
		module[dot - path] = 0;
		id = names__find(m->names, module);
		if (!id.v)
			return 0;
	}
	return modules__of_path(&m->modules, pid, id, t->kind == EV_TENSOR_STATE ? t->of : t->root);
}

/* --- a recording that begins in the middle ------------------------------------------------------------------ */

bool model__module_memory(const struct model *m, const struct block *b, struct event *ret)
{
	if (!b->module && !b->phase)
		return false;
	*ret = (struct event){ .ts_ns = b->born_ts_ns, .kind = EV_WAS_MODULE, .pid = b->pid, .tid = b->tid,
			       .dev = (uint8_t)b->dev, .addr = b->ptr, .size = m->modules.rows[b->module].addr,
			       .flags = b->phase };
	return true;
}

void model__module_was(struct model *m, const struct event *ev)
{
	struct block *b = dev_is_host(ev->dev) ? NULL : blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	struct device *d = b ? model__device(m, ev->dev) : NULL;
	bool full = false;

	if (!d || b->module || b->phase || ev->flags >= PHASE_MAX)
		return;
	modules__move(&m->modules, b, modules__at(&m->modules, ev->pid, ev->size, &full), ev->flags, d->idx, d->epoch);
	modules__gradient(&m->modules, b);
	m->lost[MT_LOSS_NAMES] += full;
}

/* --- report --------------------------------------------------------------------------------------------------- */

struct ranked_module {
	uint32_t row, parent; /* parent: place in the list + 1 */
};

static void add_sum(struct report_module_sum *to, const struct report_module_sum *from)
{
	to->alloc_count += from->alloc_count;
	to->alloc_bytes += from->alloc_bytes;
	to->live_count += from->live_count;
	to->live += from->live;
	to->at_peak += from->at_peak;
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		to->by_phase_count[i] += from->by_phase_count[i];
		to->by_phase_bytes[i] += from->by_phase_bytes[i];
		to->by_phase_live[i] += from->by_phase_live[i];
	}
}

static void own_sum(const struct model *m, uint32_t row, struct report_module_sum *ret)
{
	const struct tally *t = &m->modules.tally;
	const struct module_row *r = &m->modules.rows[row];

	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct tally_cell *c = row < t->devs[i].cnt ? &t->devs[i].cells[row] : NULL;

		if (!c || dev_is_host(m->devs[i]->dev))
			continue;
		ret->alloc_count += c->alloc_count;
		ret->alloc_bytes += c->alloc_bytes;
		ret->live_count += c->live_count;
		ret->live += c->live;
		ret->at_peak += cell__at_peak(c, m->devs[i]->epoch);
	}
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		ret->by_phase_count[i] = r->phases[i].alloc_count;
		ret->by_phase_bytes[i] = r->phases[i].alloc_bytes;
		ret->by_phase_live[i] = r->phases[i].live;
	}
}

static int fill(const struct model *m, uint32_t row, uint32_t parent, uint32_t depth, struct report_module *ret)
{
	const struct module_row *r = &m->modules.rows[row];

	*ret = (struct report_module){
		.pid = r->pid, .parent = parent, .depth = depth, .calls = r->calls, .activation = r->made.peak,
		.activation_live = r->made.live, .input = r->in.most, .output = r->out.most, .peak_forward = r->peak_forward,
		.peak_backward = r->peak_backward, .name = r->told ? strdup(names__get(m->names, r->path)) : NULL,
		.root = strdup(names__get(m->names, r->root)), .class = strdup(names__get(m->names, r->class)),
	};
	own_sum(m, row, &ret->own);
	for (unsigned k = 0; k < EV_TENSOR_MAX; k++) {
		ret->kinds[k] = r->kinds[k].peak;
		ret->kinds_live[k] = r->kinds[k].live;
	}
	return ret->root && ret->class && (ret->name || !r->told) ? 0 : -ENOMEM;
}

/* Children by parent, in the order in which they were told, as named_modules() has them; rows come with the first birth. */
struct family {
	uint32_t *first, *next; /* [row] */
	struct place {
		uint32_t turn, row;
	} *order;
};

/* Row 0, which has no turn, comes last. */
static int later(const void *pa, const void *pb)
{
	const struct place *a = pa, *b = pb;

	if (a->turn != b->turn)
		return a->turn > b->turn ? -1 : 1;
	return a->row > b->row ? -1 : a->row < b->row;
}

static int family__init(struct family *f, const struct modules *s)
{
	f->first = calloc(s->cnt, sizeof(*f->first));
	f->next = calloc(s->cnt, sizeof(*f->next));
	f->order = calloc(s->cnt, sizeof(*f->order));
	if (!f->first || !f->next || !f->order)
		return -ENOMEM;
	for (uint32_t row = 1; row < s->cnt; row++)
		f->order[row] = (struct place){ s->rows[row].turn ? s->rows[row].turn : UINT32_MAX, row };
	qsort(f->order, s->cnt, sizeof(*f->order), later);
	for (uint32_t i = 0; f->order[i].row; i++) {
		uint32_t row = f->order[i].row, parent = s->rows[row].parent;

		f->next[row] = f->first[parent];
		f->first[parent] = row;
	}
	return 0;
}

/* A module, then what is in it, and so on: rows never were in themselves. */
static int fill_all(const struct model *m, const struct family *f, struct report *r)
{
	struct {
		uint32_t row, at;
	} stack[MODULES_DEEP_MAX + 1] = { { f->first[0], 0 } };
	unsigned depth = 0;

	for (;;) {
		uint32_t row = stack[depth].row, at = (uint32_t)r->modules_cnt;

		if (!row) {
			if (!depth)
				return 0;
			depth--;
			continue;
		}
		stack[depth].row = f->next[row];
		if (fill(m, row, stack[depth].at, depth, &r->modules[r->modules_cnt++]))
			return -ENOMEM;
		if (depth < MODULES_DEEP_MAX)
			stack[++depth] = (typeof(stack[0])){ f->first[row], at + 1 };
	}
}

static int report_steps(const struct modules *s, struct report *r)
{
	size_t cnt = s->steps_cnt < STEPS_MAX ? s->steps_cnt : STEPS_MAX;

	r->step_rows = calloc(cnt ? cnt : 1, sizeof(*r->step_rows));
	if (!r->step_rows)
		return -ENOMEM;
	for (uint64_t i = s->steps ? s->steps_cnt - cnt : s->steps_cnt; i < s->steps_cnt; i++)
		r->step_rows[r->step_rows_cnt++] = s->steps[i % STEPS_MAX];
	return 0;
}

static int report_phases(const struct model *m, struct report *r)
{
	const struct modules *s = &m->modules;
	size_t cnt = s->marks_cnt < MARKS_MAX ? s->marks_cnt : MARKS_MAX;

	for (unsigned i = 0; i < PHASE_MAX; i++)
		r->phases[i] = (struct report_phase){ .entries = s->phases[i].entries, .ns = s->phases[i].ns,
						      .alloc_count = s->phases[i].alloc_count,
						      .alloc_bytes = s->phases[i].alloc_bytes, .live = s->phases[i].live,
						      .peak = s->phases[i].peak };
	memcpy(r->marks_by_kind, s->marks_by_kind, sizeof(r->marks_by_kind));
	r->marks_total = s->marks_cnt;
	r->marks = calloc(cnt ? cnt : 1, sizeof(*r->marks));
	if (!r->marks)
		return -ENOMEM;
	for (uint64_t i = s->marks ? s->marks_cnt - cnt : s->marks_cnt; i < s->marks_cnt; i++) {
		const struct mark *k = &s->marks[i % MARKS_MAX];

		r->marks[r->marks_cnt++] = (struct report_mark){ k->at, k->number, k->pid, k->tid, k->kind };
	}
	return report_steps(s, r);
}

static int heavier(const void *pa, const void *pb)
{
	const struct op_module *a = *(const struct op_module *const *)pa, *b = *(const struct op_module *const *)pb;

	if (a->alloc_bytes != b->alloc_bytes)
		return a->alloc_bytes > b->alloc_bytes ? -1 : 1;
	return a->key < b->key ? -1 : a->key > b->key;
}

static int fill_op(const struct model *m, const struct op_module *o, struct report_op_module *ret)
{
	const struct module_row *row = &m->modules.rows[op_module__module(o)];

	*ret = (struct report_op_module){
		.pid = row->pid, .alloc_count = o->alloc_count, .alloc_bytes = o->alloc_bytes,
		.op = strdup(names__get(m->names, m->ops.rows[op_module__op(o)].name)),
		.module = row->told ? strdup(names__get(m->names, row->path)) : NULL,
		.root = row->told ? strdup(names__get(m->names, row->root)) : NULL,
		.has_module = op_module__module(o) != 0,
	};
	memcpy(ret->by_phase, o->by_phase, sizeof(ret->by_phase));
	return ret->op && (!row->told || (ret->module && ret->root)) ? 0 : -ENOMEM;
}

/* All of them: which are the heaviest depends on the phase that a view is about. */
static int report_ops(const struct model *m, struct report *r)
{
	const struct op_modules *s = &m->op_modules;
	const struct op_module **all = calloc(s->cnt + 1, sizeof(*all));
	size_t n = 0;
	int err = 0;

	r->op_modules = calloc(s->cnt + 1, sizeof(*r->op_modules));
	r->op_modules_rest = s->rest.alloc_bytes;
	if (!all || !r->op_modules) {
		free(all);
		return -ENOMEM;
	}
	for (uint32_t i = 0; s->slots && i < 2 * OP_MODULES_MAX; i++)
		if (s->slots[i].key)
			all[n++] = &s->slots[i];
	qsort(all, n, sizeof(*all), heavier);
	while (!err && r->op_modules_cnt < n) {
		err = fill_op(m, all[r->op_modules_cnt], &r->op_modules[r->op_modules_cnt]);
		r->op_modules_cnt++;
	}
	free(all);
	return err;
}

int model__report_modules(const struct model *m, struct report *r)
{
	struct family f = { 0 };
	int err = family__init(&f, &m->modules);

	own_sum(m, 0, &r->no_module);
	r->modules = calloc(m->modules.cnt, sizeof(*r->modules));
	err = err || !r->modules ? -ENOMEM : fill_all(m, &f, r);
	for (size_t i = r->modules_cnt; i-- > 0;) { /* those in it come behind it */
		struct report_module *row = &r->modules[i];

		add_sum(&row->all, &row->own);
		if (row->parent)
			add_sum(&r->modules[row->parent - 1].all, &row->all);
	}
	free(f.first);
	free(f.next);
	free(f.order);
	err = err ? err : report_phases(m, r);
	return err ? err : report_ops(m, r);
}
