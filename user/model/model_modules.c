/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Whose forward or backward made a block, and in which phase, without annotations.
 *
 * The module whose forward runs is reported just before an allocation (EV_MODULE_AT), from the thread's Python frames. With a
 * node of backward open a module's forward is recomputation (activation checkpointing); where no forward runs then, the block
 * belongs to the module whose forward made that node. Regions of optimizers are theirs. A thread is in a forward pass from the
 * first allocation in a module until its process enters a node (fw_bw_boundary) or an optimizer: the loss is part of it. With
 * grad mode off, and no forward under way, it is evaluation.
 *
 * Where Python cannot be read, regions that tools/python's annotate() puts around forwards are modules as far as phases go.
 *
 * Allocations, nodes, regions and changes of module are looked at, nothing else: a phase begins with the first of them in it.
 */
#include <string.h>

#include "base/regions.h"
#include "event/event.h"
#include "model/model_modules.h"
#include "model/state.h"

#define MODULE_PREFIX "nn.Module#"

/* --- marks ---------------------------------------------------------------------------------------------------- */

/* All was traced from that time on, which is not after now. Gaps are known by their times alone. */
static bool model__was_traced(const struct model *m, uint64_t since_ns)
{
	return gaps__clock(&m->gaps, m->now_ns) - gaps__clock(&m->gaps, since_ns) == m->now_ns - since_ns &&
	       (!gaps__is_open(&m->gaps) || m->gaps.v[m->gaps.cnt - 1].begin_ns == m->now_ns);
}

static void mark(struct model *m, struct proc *p, uint32_t pid, uint32_t tid, enum tl_mark kind, uint64_t number)
{
	struct tl_event tl = { .ts_ns = m->now_ns, .kind = TL_MARK, .pid = pid, .tid = tid, .version = kind, .ptr = number };
	struct mark_at at = { m->now_ns, p->fw.live, p->fw.high };

	p->fw.high = p->fw.live;
	p->marks_cnt[kind]++;
	if (model__was_traced(m, m->now_ns))
		p->marks[kind] = at;
	step_marks__add(&p->step, kind, &at);
	modules__mark(&m->modules, &(struct report_mark){ at, number, pid, tid, (uint8_t)kind });
	model__tell(m, &tl);
}

/*
 * A process settles: its first step makes the optimizer's state, or is where memory from before the attach is seen. Such
 * steps end with more than they began with; the first that does not ends it. Growth that goes on does not count.
 */
#define SETTLING_MAX 5
#define SETTLING_SHARE 100 /* of a step's peak: it left more than this part of it */

static bool is_settling(struct proc *p, const struct step_marks *s)
{
	uint64_t live = s->at[MARK_STEP].live, before = p->step_live;

	p->step_live = live;
	if (!p->is_settled && p->steps <= SETTLING_MAX &&
	    (!s->begin_ts_ns || (live > before && live - before > step_marks__peak(s) / SETTLING_SHARE)))
		return true;
	p->is_settled = true;
	return false;
}

/* Its begin, else its forward's, as the first one's begin is not known. */
static uint64_t step_from_ns(const struct step_marks *s, uint64_t end_ns)
{
	return s->begin_ts_ns ? s->begin_ts_ns : s->at[MARK_FW_START].ts_ns ? s->at[MARK_FW_START].ts_ns : end_ns;
}

/* Of two that are as high the one in which the process's peak is. */
static bool is_highest(const struct proc *p, const struct step_marks *s)
{
	uint64_t now = step_marks__peak(s), was = step_marks__peak(&p->highest_step);

	return !p->highest_step.pid || now > was || (now == was && s->begin_ts_ns <= p->fw.peak_ts_ns);
}

static void end_step(struct model *m, uint32_t pid, uint32_t tid, struct proc *p)
{
	struct step_marks *s = &p->step;

	if (!p->listed)
		return;
	p->has_gradients = p->is_cleared = false;
	p->steps++;
	s->pid = pid;
	s->number = p->has_steps ? p->step_number : p->steps;
	mark(m, p, pid, tid, MARK_STEP, s->number);
	s->is_settling = is_settling(p, s);
	if (s->is_settling) {
		if (!p->settling_to_ns)
			p->settling_from_ns = step_from_ns(s, m->now_ns);
		p->settling_to_ns = m->now_ns;
	}
	if (!m->levels.cnt || model__was_traced(m, s->begin_ts_ns ? s->begin_ts_ns : m->start_ts_ns)) {
		modules__step(&m->modules, s);
		if (is_highest(p, s))
			p->highest_step = *s;
	}
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
	t->has_trained = true;
	t->forward_no = p->forward_no;
	if (!p->in_forward && p->is_cleared && p->has_gradients)
		end_step(m, t->pid, t->tid, p);
	if (!p->in_forward)
		mark(m, p, t->pid, t->tid, MARK_FW_START, 0);
	p->in_forward = true;
}

/* Ends forwards of other threads as well: backward of a GPU has a thread of its own. */
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
	p->has_node = p->has_gradients = true;
	t->has_trained = true;
	set_phase(m, t, PHASE_BACKWARD);
}

static bool is_in_module(const struct thread *t)
{
	return t->module || t->module_regions;
}

/* With no node and no optimizer open, at an allocation or a change of module. */
static enum phase phase_outside(const struct thread *t, uint8_t graph)
{
	const struct proc *p = t->proc;
	bool in_forward = is_in_forward(t);

	if (graph == EV_PLACE_FORWARD) /* which runs with grad mode off */
		return PHASE_FORWARD;
	if (is_in_module(t))
		return t->no_grad && !in_forward ? PHASE_EVALUATION : PHASE_FORWARD;
	if (in_forward) /* the loss, or backward whose nodes have no probes yet */
		return p->is_being_set && !p->has_node ? PHASE_OTHER : PHASE_FORWARD;
	if (t->phase == PHASE_EVALUATION && t->no_grad)
		return PHASE_EVALUATION;
	/* without modules, as in a job of functions alone: what follows the optimizer, less the next batch */
	if (!p->has_module && !t->loaders && p->has_node && (t->phase == PHASE_OPTIMIZER || t->phase == PHASE_FORWARD))
		return PHASE_FORWARD;
	return PHASE_OTHER;
}

/* graph: enum ev_place, of the generated graph that an allocation is in; 0: none, or not known. */
static void look_at_phase(struct model *m, struct thread *t, bool in_node, uint8_t graph)
{
	enum phase now;

	if (graph == EV_PLACE_BACKWARD && !in_node && !t->optimizers) { /* compiled autograd evaluates no nodes */
		enter_backward(m, t);
		return;
	}
	if (in_node) {
		set_phase(m, t, is_in_module(t) || graph == EV_PLACE_FORWARD ? PHASE_RECOMPUTE : PHASE_BACKWARD);
		return;
	}
	if (t->optimizers) {
		set_phase(m, t, PHASE_OPTIMIZER);
		return;
	}
	now = phase_outside(t, graph);
	if (now == PHASE_FORWARD)
		enter_forward(m, t);
	else if (now != PHASE_OTHER || t->phase == PHASE_EVALUATION || t->phase == PHASE_FORWARD)
		set_phase(m, t, now);
}

/* Memory allocated outside of all known frames and regions has no phase, though the phase before may go on after it. */
static enum phase phase_of_alloc(const struct thread *t, bool in_node)
{
	bool is_inside = t->phase == PHASE_BACKWARD || t->phase == PHASE_RECOMPUTE || t->phase == PHASE_OPTIMIZER;

	return is_inside && !in_node && !t->optimizers ? PHASE_OTHER : t->phase;
}

/* As far as is known at its entry: its first allocation may show more. */
enum phase model__phase_of_op(const struct thread *t, bool in_node)
{
	if (t->phase == PHASE_FORWARD && !is_in_forward(t))
		return PHASE_OTHER;
	return phase_of_alloc(t, in_node);
}

/*
 * Changes are reported with allocations, so the last one says nothing of an operator after it. At a refusal it is reported in
 * any case (bpf/module.bpf.c); older recordings have it only where something was allocated in the operator.
 */
uint32_t model__module_refused(const struct thread *t, const struct event *ev, enum phase *ret_phase)
{
	bool in_node = thread__in_node(t, ev);

	if (!ev->depth || !ev->seq || t->module_seq != ev->seq)
		return 0;
	if (in_node)
		*ret_phase = t->module ? PHASE_RECOMPUTE : PHASE_BACKWARD;
	else
		*ret_phase = phase_outside(t, 0);
	return t->module ? t->module : in_node ? t->node_module : 0;
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

/* Counts the regions that the thread has open after the event. */
static void count_regions(struct thread *t)
{
	t->optimizers = t->module_regions = t->loaders = 0;
	for (unsigned i = 0; i < t->regions_cnt; i++) {
		t->optimizers += t->regions[i].is_optimizer;
		t->module_regions += t->regions[i].is_module;
		t->loaders += t->regions[i].is_loader;
	}
}

void model__phase_cleared(struct model *m, const struct thread *t)
{
	struct proc *p = t->proc;

	if (!p->has_graphs || p->has_step_regions || p->has_steps)
		return;
	if (p->in_forward)
		p->is_cleared = true;
	else if (p->has_gradients)
		end_step(m, t->pid, t->tid, p);
}

/* zero_grad() may stand between forward and backward. */
static void enter_optimizer(struct model *m, struct thread *t, bool is_step)
{
	t->proc->has_step_regions |= is_step;
	if (is_step)
		leave_forward(t->proc);
	else
		model__phase_cleared(m, t);
	t->has_trained = true;
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

	if (r && begins_with(m, ev->name, REGION_OPTIMIZER))
		r->is_optimizer = true;
	else if (r && begins_with(m, ev->name, MODULE_PREFIX))
		r->is_module = p->has_module = true;
	else if (r && begins_with(m, ev->name, REGION_LOADER "#"))
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
	struct event reported = *ev;
	bool full;

	if (!ev->pid || !ev->addr || (p && p->gone == 1))
		return;
	reported.name.v = ev->name.v < NAMES_MAX ? ev->name.v : 0;
	reported.root.v = ev->root.v < NAMES_MAX ? ev->root.v : 0;
	reported.type.v = ev->type.v < NAMES_MAX ? ev->type.v : 0;
	if (!modules__define(&m->modules, &reported))
		m->lost[MT_LOSS_NAMES]++;
	else if (m->timeline_nodes)
		model__tell(m, &(struct tl_event){ .ts_ns = m->now_ns, .kind = TL_MODULE, .pid = ev->pid, .op = reported.name,
						   .region = reported.root,
						   .id = modules__at(&m->modules, ev->pid, ev->addr, &full) });
}

static bool is_the_modules_own(const struct block *b)
{
	return b->cat == CAT_PARAMETER || b->cat == CAT_OPTIMIZER_STATE || b->cat == CAT_FROZEN || b->cat == CAT_BUFFER ||
	       b->named;
}

/* Made since modules are reported, or before the attach: else it may be this very module's. */
static bool is_origin_known(const struct proc *p, const struct block *b)
{
	return b->module || b->late || b->allocated_ts_ns > p->module_ts_ns;
}

/* The module of the operator is known by now. */
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
	t->module_seq = ev->seq;
	t->no_grad = ev->flags & MT_MODULE_NO_GRAD;
	if (row && !t->proc->has_module)
		t->proc->module_ts_ns = m->now_ns;
	t->proc->has_module |= row != 0;
	/* with grad mode off it may be a generated forward: the next allocation shows it */
	if (row && !(t->no_grad && t->proc->has_graphs))
		look_at_phase(m, t, thread__in_node(t, ev), 0);
}

/*
 * Only operators of a forward: a use of a saved tensor in backward is no output. An operator's arguments are reported when it
 * begins, a change of module with the first allocation in it: so arguments wait for that, or for the next operator.
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

void model__module_alloc(struct model *m, struct thread *t, const struct event *ev, struct block *b, uint8_t graph)
{
	bool in_node = thread__in_node(t, ev);

	t->proc->has_graphs |= graph != 0;
	look_at_phase(m, t, in_node, graph);
	if (t->used_cnt)
		settle_used(m, t);
	b->phase = phase_of_alloc(t, in_node || graph == EV_PLACE_BACKWARD) & 7;
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
	*ret = (struct event){ .ts_ns = b->allocated_ts_ns, .kind = EV_WAS_MODULE, .pid = b->pid, .tid = b->tid,
			       .dev = (uint8_t)b->dev, .addr = b->ptr, .size = m->modules.rows[b->module].addr,
			       .flags = b->phase };
	return true;
}

void model__module_was(struct model *m, const struct event *ev)
{
	struct block *b = dev_is_host(ev->dev) ? NULL : blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	struct device *d = b ? model__device(m, ev->dev) : NULL;
	struct proc *p = d ? model__proc_of(m, ev) : NULL;
	bool full = false;

	if (!p || b->module || b->phase || ev->flags >= PHASE_MAX)
		return;
	modules__move(&m->modules, b, modules__at(&m->modules, ev->pid, ev->size, &full), ev->flags, d->idx, d->epoch);
	p->has_module |= b->module != 0;
	modules__gradient(&m->modules, b);
	m->lost[MT_LOSS_NAMES] += full;
}
