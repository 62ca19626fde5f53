// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whose forward runs: the innermost Python frame of torch.nn.Module's own __call__ (_wrapped_call_impl), whose first
 * local variable is the module. Neither names nor `self` of any method are looked at: a function that is given a model
 * is not that model's forward.
 *
 * Looked at once in each operator that Python calls, if something is allocated in it. Two consecutive allocations with the same
 * two innermost frames (place, code, instruction of the outer one, first variables) are in the same module as long as that
 * module's frame is its, so the walk to the outermost frame, which all of optimizer and backward would take, is made when those
 * change. Frames alone are not enough: layers that torch.compile compiled one by one run one object of generated code.
 *
 * A module that is in no tree (what torch.compile makes of one, a loss made where it is used) is passed over for the nearest
 * named one around it; if there is none it is reported itself: its name may become known later.
 *
 * A module is reported with the sequence number of autograd: a node of the graph is made, and numbered, before the
 * operator that it belongs to allocates. A later evaluation of that node has the number (lib/frames.h, EV_NODE), so
 * user space knows which module's backward it is.
 *
 * place_take: the innermost frame alone, with a check of its code object, where an operator is not open.
 */
#include "lib/module.h"

#define MODULE_REPORTED 0x80
#define MODULE_TURNS 128
#define NO_FRAME 1 /* 0: the thread has none */
#define TSD_KEYS 32
#define DTV_ENTRY 16
#define DTV_MODULES_MAX 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_PY_PROCS_MAX);
	__type(key, u32);
	__type(value, struct mt_module_proc);
} module_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MT_MODULES_NAMED_MAX);
	__type(key, struct mt_module_key);
	__type(value, u8);
} modules_named SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MT_PLACES_REPORTED_MAX);
	__type(key, u64);
	__type(value, u8);
} places_reported SEC(".maps");

static __always_inline u64 user_word(u64 at)
{
	u64 v = 0;

	return bpf_probe_read_user(&v, sizeof(v), (void *)at) ? 0 : v;
}

static __always_inline u64 word_at(const struct mt_module_state *s, u32 off)
{
	return s->words[off / 8 & (MT_PY_FRAME_WORDS - 1)];
}

/* --- this thread's variables -------------------------------------------------------------------------------- */

static __always_inline u64 tls_addr(u64 self, const struct mt_tls_var *v)
{
	u64 dtv, block;

	if (!v->module || v->module >= DTV_MODULES_MAX)
		return 0;
	dtv = user_word(dtv_of(self));
	block = dtv ? user_word(dtv + v->module * DTV_ENTRY) : 0;
	return block && block != ~0ull ? block + v->offset : 0; /* -1: this thread has not used it yet */
}

static __always_inline u64 this_thread(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	return thread_pointer(task);
}

static __always_inline void settle_generation(struct mt_module_state *s, const struct mt_module_proc *p)
{
	if (s->generation == p->generation)
		return;
	s->generation = p->generation;
	s->reported = s->self = s->self_at = s->named = s->key = s->seq = s->seq_at = s->grad_at = s->tstate = 0;
	s->node_frame = 0;
	s->flags_reported = 0;
}

static __always_inline u64 seq_now(struct mt_module_state *s, const struct mt_module_proc *p, u64 self)
{
	if (!s->seq_at)
		s->seq_at = tls_addr(self, &p->seq);
	return s->seq_at ? user_word(s->seq_at) : 0;
}

/* Outside of all modules it is read only if it was last reported as off. */
static __always_inline u32 grad_flags(struct mt_module_state *s, const struct mt_module_proc *p, u64 self)
{
	u8 byte = 1;

	if (!s->self && !(s->flags_reported & MT_MODULE_NO_GRAD))
		return 0;
	if (!s->grad_at)
		s->grad_at = tls_addr(self, &p->grad);
	if (!s->grad_at || bpf_probe_read_user(&byte, sizeof(byte), (void *)s->grad_at))
		return 0;
	return byte & 1 ? 0 : MT_MODULE_NO_GRAD;
}

/* --- Python's frames ------------------------------------------------------------------------------------------ */

/* This thread's PyThreadState; the one of before is valid as long as it names this thread. */
static __always_inline u64 thread_state(struct mt_module_state *s, const struct mt_py_proc *p, u64 self)
{
	u64 block, tstate = s->tstate;

	if (tstate && user_word(tstate + p->tstate_thread_id) == self)
		return tstate;
	block = user_word(self + p->tsd_table + 8 * (p->tsd_key / TSD_KEYS));
	tstate = block ? user_word(block + 16 * (p->tsd_key & (TSD_KEYS - 1)) + 8) : 0;
	if (tstate && user_word(tstate + p->tstate_thread_id) != self)
		tstate = 0;
	s->tstate = tstate;
	return tstate;
}

/* Both words of the last thread state in one read; 0: it is not this thread's. Its frame may be 0. */
static __always_inline int known_frame(struct mt_module_state *s, const struct mt_py_proc *p, u64 self, u64 *ret)
{
	u32 first = p->tstate_thread_id < p->tstate_frame ? p->tstate_thread_id : p->tstate_frame;
	u32 bytes = p->tstate_thread_id + p->tstate_frame - 2 * first + 8;

	if (!s->tstate || bytes > sizeof(s->words) - 8 ||
	    bpf_probe_read_user(s->words, bytes & (sizeof(s->words) - 1), (void *)(s->tstate + first)) ||
	    word_at(s, p->tstate_thread_id - first) != self)
		return 0;
	*ret = word_at(s, p->tstate_frame - first);
	return 1;
}

/* The innermost frame of this thread, 0: it runs no Python, or its state is not as expected. */
static __always_inline u64 innermost(struct mt_module_state *s, const struct mt_py_proc *p, u64 self)
{
	u64 tstate, frame;

	if (!known_frame(s, p, self, &frame)) {
		tstate = thread_state(s, p, self);
		frame = tstate ? user_word(tstate + p->tstate_frame) : 0;
	}
	if (frame && p->cframe_frame != MT_PY_NO_OFFSET)
		frame = user_word(frame + p->cframe_frame);
	return frame;
}

struct module_walk {
	struct mt_module_state *s;
	const struct mt_module_proc *p;
	u64 frame;
	u64 self; /* found, with a name */
	u64 innermost; /* found */
	u64 found_at;  /* where the one is that counts: its first variable */
	u64 first; /* of the frame read last: its first variable */
};

static __always_inline int has_name(const struct mt_module_state *s, u64 obj)
{
	struct mt_module_key key = { obj, bpf_get_current_pid_tgid() >> 32 };

	/* the last one found is not looked up again */
	if (obj == s->named || bpf_map_lookup_elem(&modules_named, &key))
		return 1;
	key.obj = 0;
	return !bpf_map_lookup_elem(&modules_named, &key);
}

/* One frame; 1: enough. */
static __always_inline int walk_frame(struct module_walk *w)
{
	const struct mt_module_proc *p = w->p;
	u64 at = w->frame, code;

	if (!at || bpf_probe_read_user(w->s->words, p->py.frame_bytes & (sizeof(w->s->words) - 1), (void *)at)) {
		w->frame = 0;
		return 1;
	}
	w->frame = word_at(w->s, p->py.frame_previous);
	code = word_at(w->s, p->py.frame_code);
	w->first = p->frame_self < sizeof(w->s->words) ? word_at(w->s, p->frame_self) : user_word(at + p->frame_self);
	if (code != p->call || !w->first)
		return 0;
	if (!w->innermost) {
		w->innermost = w->first;
		w->found_at = at + p->frame_self;
	}
	if (!has_name(w->s, w->first))
		return 0;
	w->self = w->first;
	w->found_at = at + p->frame_self;
	return 1;
}

static long walk_step(u32 i, struct module_walk *w)
{
	return walk_frame(w);
}

static __always_inline u64 frame_key(const struct module_walk *w, u64 at, u64 instr)
{
	return mt_py_mix(mt_py_mix(mt_py_mix(at, word_at(w->s, w->p->py.frame_code)), w->first), instr);
}

/* The module, 0: none. */
static __always_inline u64 module_find(struct mt_module_state *s, const struct mt_module_proc *p, u64 frame)
{
	struct module_walk w = { .s = s, .p = p, .frame = frame };
	u64 at = frame, first, key = 0;

	if (!walk_frame(&w)) {
		first = frame_key(&w, at, 0);
		at = w.frame;
		if (!walk_frame(&w)) {
			key = mt_py_mix(first, frame_key(&w, at, word_at(s, p->py.frame_instr)));
			if (key == s->key && (!s->self || user_word(s->self_at) == s->self))
				return s->self;
			bpf_loop(MODULE_TURNS, walk_step, &w, 0);
		}
	}
	s->key = key;
	s->self_at = w.found_at;
	s->named = w.self;
	return w.self ? w.self : w.innermost;
}

static __always_inline void module_look(struct mt_thread *t, const struct mt_module_proc *p, u32 in_node)
{
	struct mt_module_state *s = &t->module;
	u64 self = this_thread(), before, frame;
	u32 flags, where = in_node ? MT_MODULE_IN_NODE : 0;

	settle_generation(s, p);
	before = s->seq;
	frame = innermost(s, &p->py, self);
	/* the caller of backward waits in that frame, so the modules around it have not changed */
	if (in_node && !s->reported && frame == s->node_frame)
		return;
	s->self = module_find(s, p, frame);
	s->node_frame = in_node && !s->self ? frame : 0;
	s->seq = seq_now(s, p, self);
	flags = grad_flags(s, p, self);
	if (s->self == s->reported && s->flags_reported == (flags | MODULE_REPORTED))
		return;
	/*
	 * Nodes made since the last look: the last one is the open operator's, those before it are of views, most often
	 * the t() of a linear layer, which begins the module.
	 */
	if (emit_mem(t, MT_EV_MODULE, MT_DEV_NONE, flags | where, s->self, before ? before : s->seq ? s->seq - 1 : 0)) {
		s->seq = before;
		return; /* reported the next time */
	}
	s->reported = s->self;
	s->flags_reported = flags | MODULE_REPORTED;
}

/* --- the line of Python that allocates ------------------------------------------------------------------------- */

static __always_inline int place_tell(u64 hash, u64 code, u64 instr, u64 check)
{
	void *ring = ring_get();
	struct mt_rec_place *r = ring_reserve(ring, sizeof(*r));

	if (!r)
		return -1;
	hdr_fill(&r->hdr, MT_EV_PLACE, MT_DEV_NONE, bpf_ktime_get_ns());
	r->hash = hash;
	r->code = code;
	r->instr = instr;
	r->check = check;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
	return 0;
}

/* Its hash; 0: none, or one of no interest. */
static __always_inline u64 place_look(struct mt_module_state *s, const struct mt_module_proc *p, u32 pid)
{
	u64 self = this_thread(), frame, code, instr, check, hash;
	const u8 *known;
	u8 reported = MT_PLACE_REPORTED;

	settle_generation(s, p);
	frame = innermost(s, &p->py, self);
	if (!frame || bpf_probe_read_user(s->words, p->py.frame_bytes & (sizeof(s->words) - 1), (void *)frame))
		return 0;
	code = word_at(s, p->py.frame_code);
	instr = word_at(s, p->py.frame_instr);
	if (p->py.instr_bytes == 4)
		instr = (u32)(instr >> 8 * (p->py.frame_instr & 7));
	if (!code || (code & 7) ||
	    bpf_probe_read_user(s->words, MT_PY_CHECK_WORDS * sizeof(u64), (void *)(code + p->py.code_check)))
		return 0;
	check = mt_py_check(s->words);
	hash = mt_py_mix(mt_py_mix(mt_py_mix(mt_py_mix(0, pid), code), instr), check) ?: 1;
	known = bpf_map_lookup_elem(&places_reported, &hash);
	if (known)
		return *known == MT_PLACE_PLAIN ? 0 : hash;
	if (place_tell(hash, code, instr, check))
		return 0;
	bpf_map_update_elem(&places_reported, &hash, &reported, BPF_NOEXIST); /* if it fails it is reported again */
	return hash;
}

/* Every sixteenth call is timed: true on average over many. */
#define TIMED_EVERY 16

__noinline int module_take(struct mt_thread *t, u32 in_node)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	const struct mt_module_proc *p;
	struct mt_counters *c;
	u64 begin;

	if (!t)
		return 0;
	p = bpf_map_lookup_elem(&module_procs, &pid);
	if (!p)
		return 0;
	c = counters_get();
	if (c->hits[MT_PROG_MODULE]++ % TIMED_EVERY) {
		module_look(t, p, in_node);
		return 0;
	}
	begin = bpf_ktime_get_ns();
	module_look(t, p, in_node);
	c->module_ns += (bpf_ktime_get_ns() - begin) * TIMED_EVERY;
	return 0;
}

/*
 * At a refusal it is looked at in any case, and reported even if it is still the same: user space takes it for known only if it
 * was reported in the very operator that was refused memory (user/model/model_modules.c).
 */
__noinline int module_refused(struct mt_thread *t)
{
	if (!t)
		return 0;
	t->module.outer = 0;
	t->module.node_frame = NO_FRAME;
	t->module.flags_reported = 0;
	module_at(t);
	return 0;
}

__noinline u64 place_take(struct mt_thread *t)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	const struct mt_module_proc *p;
	struct mt_counters *c;
	u64 begin, place;

	if (!t)
		return 0;
	p = bpf_map_lookup_elem(&module_procs, &pid);
	if (!p)
		return 0;
	c = counters_get();
	if (c->hits[MT_PROG_MODULE]++ % TIMED_EVERY)
		return place_look(&t->module, p, pid);
	begin = bpf_ktime_get_ns();
	place = place_look(&t->module, p, pid);
	c->module_ns += (bpf_ktime_get_ns() - begin) * TIMED_EVERY;
	return place;
}

__noinline u64 module_node_seq(u64 node)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	const struct mt_module_proc *p = bpf_map_lookup_elem(&module_procs, &pid);

	return p && p->node_seq ? user_word(node + p->node_seq) : 0;
}
