// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The stack of an allocation: --stacks, and allocations that are caught.
 *
 * Python: the thread's own PyThreadState, by its pthread key, and only if it names this thread; from
 * there frame by frame. A hash is sent; its frames go with it once, and again when the (bounded, least
 * recently used) table of hashes has dropped it. Each frame has a check of its code object, because
 * user space reads that later, when another one may lie there.
 *
 * Native: PyPI's libtorch has no frame pointers, so the kernel cannot walk it. Registers and a piece of
 * the stack travel, and user space unwinds with the call frame information of the files; a rate bounds it.
 */
#include "lib/stack.h"

#define PY_HASHES_MAX 16384
#define PY_FRAME_BYTES_MAX 128
#define TSD_KEYS 32
#define NS_PER_S 1000000000ull

struct stack_buf {
	struct mt_rec_py rec;
	u64 words[PY_FRAME_BYTES_MAX / 8]; /* a frame */
	u64 check[MT_PY_CHECK_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stack_buf);
} stack_bufs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_PY_PROCS_MAX);
	__type(key, u32);
	__type(value, struct mt_py_proc);
} py_procs SEC(".maps");

/* Hashes that user space has the frames of. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PY_HASHES_MAX);
	__type(key, u64);
	__type(value, u8);
} py_reported SEC(".maps");

/* Allocations to catch, by process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_CATCH_PROCS_MAX);
	__type(key, u32);
	__type(value, struct mt_catch);
} catches SEC(".maps");

__u64 mt_stack_next_ns; /* when the next native one would come if all came evenly */

/* --- Python ------------------------------------------------------------------------------------ */

/*
 * Kernels before 6.8 verify a loop's body once, with the values known before it: a counter that begins with a known 0
 * would stay 0, and code that depends on it be removed as dead. It begins with a 0 that the verifier does not know.
 */
__u32 mt_stack_zero;

struct py_walk {
	struct stack_buf *b;
	const struct mt_py_proc *p;
	u64 frame, hash;
	u32 cnt, is_cut;
};

static __always_inline u64 user_word(u64 at)
{
	u64 v = 0;

	return bpf_probe_read_user(&v, sizeof(v), (void *)at) ? 0 : v;
}

static __always_inline u64 word_at(const struct stack_buf *b, u16 off)
{
	return b->words[(off / 8) & (PY_FRAME_BYTES_MAX / 8 - 1)];
}

static __always_inline u8 byte_at(const struct stack_buf *b, u16 off)
{
	return word_at(b, off) >> 8 * (off & 7);
}

/* The innermost frame of this thread, 0: it runs no Python, or its state is not as expected. */
static __always_inline u64 py_innermost(const struct mt_py_proc *p)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u64 self = thread_pointer(task), block, tstate, frame;

	block = user_word(self + p->tsd_table + 8 * (p->tsd_key / TSD_KEYS));
	tstate = block ? user_word(block + 16 * (p->tsd_key & (TSD_KEYS - 1)) + 8) : 0;
	if (!tstate || user_word(tstate + p->tstate_thread_id) != self)
		return 0;
	frame = user_word(tstate + p->tstate_frame);
	if (frame && p->cframe_frame != MT_PY_NO_OFFSET)
		frame = user_word(frame + p->cframe_frame);
	return frame;
}

static __always_inline int py_is_entry(const struct py_walk *w)
{
	if (w->p->frame_entry != MT_PY_NO_OFFSET)
		return byte_at(w->b, w->p->frame_entry);
	return w->p->entry_always;
}

/* 0: go on with the frame that called this one. */
static long py_step(u32 i, struct py_walk *w)
{
	const struct mt_py_proc *p = w->p;
	struct stack_buf *b = w->b;
	struct mt_py_frame *f;
	u64 code, instr;

	if (!w->frame)
		return 1;
	if (bpf_probe_read_user(b->words, p->frame_bytes & (PY_FRAME_BYTES_MAX - 1), (void *)w->frame)) {
		w->is_cut = 1;
		return 1;
	}
	w->frame = word_at(b, p->frame_previous);
	if (p->owner_shim && byte_at(b, p->frame_owner) == p->owner_shim) {
		if (w->cnt) { /* the frame that it called, which was read before it, was called from C */
			b->rec.frames[(w->cnt - 1) & (MT_PY_FRAMES_MAX - 1)].code |= MT_PY_ENTRY;
			w->hash = mt_py_mix(w->hash, MT_PY_ENTRY);
		}
		return 0;
	}
	code = word_at(b, p->frame_code);
	instr = word_at(b, p->frame_instr);
	if (p->instr_bytes == 4)
		instr = (u32)(instr >> 8 * (p->frame_instr & 7));
	if (w->cnt >= MT_PY_FRAMES_MAX || (code & 7) ||
	    bpf_probe_read_user(b->check, sizeof(b->check), (void *)(code + p->code_check))) {
		w->is_cut = 1;
		return 1;
	}
	f = &b->rec.frames[w->cnt & (MT_PY_FRAMES_MAX - 1)];
	f->code = code | (py_is_entry(w) ? MT_PY_ENTRY : 0);
	f->instr = instr;
	f->check = mt_py_check(b->check);
	w->hash = mt_py_mix(mt_py_mix(mt_py_mix(w->hash, f->code), instr), f->check);
	w->cnt++;
	return 0;
}

static __always_inline void py_tell(struct stack_buf *b, u64 hash, u32 cnt)
{
	u64 size = sizeof(b->rec) - sizeof(b->rec.frames);
	u8 one = 1;

	if (bpf_map_lookup_elem(&py_reported, &hash))
		return;
	if (cnt > MT_PY_FRAMES_MAX)
		cnt = MT_PY_FRAMES_MAX;
	size += cnt * sizeof(b->rec.frames[0]);
	if (!ring_output(&b->rec, size))
		bpf_map_update_elem(&py_reported, &hash, &one, BPF_ANY); /* if it fails it is sent again */
}

/* Twice as many turns as frames: shims count too. */
#define PY_TURNS (2 * MT_PY_FRAMES_MAX)

/* Hash of this thread's Python frames; 0: it runs none, or none that can be read. */
__noinline u64 py_take(u32 pid)
{
	const struct mt_py_proc *p = bpf_map_lookup_elem(&py_procs, &pid);
	struct py_walk w = { .hash = pid, .p = p, .cnt = mt_stack_zero };

	if (!p)
		return 0;
	w.frame = py_innermost(p);
	if (!w.frame)
		return 0;
	w.b = bpf_task_storage_get(&stack_bufs, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w.b) {
		loss_count(MT_LOSS_THREAD_STATE);
		return 0;
	}
	bpf_loop(PY_TURNS, py_step, &w, 0);
	if (w.frame)
		w.is_cut = 1;
	if (!w.cnt)
		return 0;
	w.hash = mt_py_mix(w.hash, w.is_cut);
	if (!w.hash)
		w.hash = 1;
	hdr_fill(&w.b->rec.hdr, MT_EV_STACK_PY, MT_DEV_NONE, bpf_ktime_get_ns());
	w.b->rec.hash = w.hash;
	w.b->rec.frames_cnt = w.cnt;
	w.b->rec.is_cut = w.is_cut;
	py_tell(w.b, w.hash, w.cnt);
	return w.hash;
}

/* --- native ------------------------------------------------------------------------------------- */

/*
 * A rate over a second, and half of the ring at most: the rest is for events. Two CPUs at once may
 * count as one, which does no harm.
 */
static __always_inline int native_may(u64 now, u64 waiting)
{
	u64 next = mt_stack_next_ns;

	if (next + NS_PER_S < now)
		next = now - NS_PER_S;
	if (next > now || waiting + sizeof(struct mt_rec_raw) > 2 * (u64)mt_config.wake_bytes) {
		loss_count(MT_LOSS_STACK_RATE);
		return 0;
	}
	mt_stack_next_ns = next + mt_config.stack_gap_ns;
	return 1;
}

/* Page by page: the stack may end before the record does. */
static __always_inline u32 native_copy(struct mt_rec_raw *r, u64 sp)
{
	u32 len = PAGE_SIZE - (sp & (PAGE_SIZE - 1)), at = 0;

	if (bpf_probe_read_user(r->bytes, len, (void *)sp))
		return 0;
	at = len;
	for (int i = 0; i < MT_STACK_RAW_MAX / 4096 - 1; i++) {
		barrier_var(at); /* else the compiler leaves the comparison out, which the verifier needs */
		if (at > MT_STACK_RAW_MAX - PAGE_SIZE || bpf_probe_read_user(r->bytes + at, PAGE_SIZE, (void *)(sp + at)))
			break;
		at += PAGE_SIZE;
	}
	return at;
}

static __always_inline int native_take(const struct stack_ask *ask, u64 python)
{
	u64 now = bpf_ktime_get_ns(), waiting;
	struct mt_rec_raw *r;
	void *ring = ring_get();

	waiting = ring ? bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) : 0;
	if (!native_may(now, waiting))
		return -1;
	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return 0;
	hdr_fill(&r->hdr, MT_EV_STACK_RAW, ask->dev, now);
	r->hdr.flags = ask->flags;
	r->addr = ask->addr;
	r->python = python;
	__builtin_memcpy(r->regs, ask->regs, sizeof(r->regs));
	r->bytes_cnt = native_copy(r, ask->regs[MT_STACK_SP]);
	bpf_ringbuf_submit(r, waiting > mt_config.wake_bytes ? BPF_RB_FORCE_WAKEUP : ring_wake_flags(ring));
	return 0;
}

static __always_inline void stack_take_both(struct stack_ask *ask)
{
	u64 python = 0;

	if (mt_config.stacks & MT_STACKS_PYTHON)
		python = py_take(bpf_get_current_pid_tgid() >> 32);
	if ((mt_config.stacks & MT_STACKS_NATIVE) && !native_take(ask, python))
		return;
	if (python)
		emit_mem(NULL, MT_EV_STACK, ask->dev, 0, ask->addr, python);
}

__noinline int stack_take(struct stack_ask *ask)
{
	u64 begin = bpf_ktime_get_ns();

	if (!ask || !mt_config.stacks)
		return 0;
	hit_count(MT_PROG_STACK);
	stack_take_both(ask);
	counters_get()->stack_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

/* --- caught ------------------------------------------------------------------------------------- */

static __always_inline int is_sort(const struct mt_catch_sort *s, u32 op, u32 dev, u64 size)
{
	return size >= s->min && size <= s->max && dev == s->dev &&
	       ((!s->op[0] && !s->op[1]) || (op && (op == s->op[0] || op == s->op[1])));
}

/* Takes one of a sort that matches; 0: no sort matches, or none is left. */
static __always_inline int catch_may(struct mt_catch *c, u32 op, u32 dev, u64 size)
{
	for (u32 i = 0; i < MT_CATCH_SORTS_MAX && i < c->cnt; i++) {
		struct mt_catch_sort *s = &c->sorts[i];

		/* Checked before: a counter that is below 0 must not wrap to above it. */
		if (is_sort(s, op, dev, size) && s->left > 0)
			return __sync_fetch_and_add(&s->left, -1) > 0;
	}
	return 0;
}

__noinline int catch_take(u32 op, u32 dev, u64 addr, u64 size)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	u64 begin = bpf_ktime_get_ns(), python;
	struct mt_catch *c;

	if (!(mt_config.stacks & MT_STACKS_CATCH))
		return 0;
	c = bpf_map_lookup_elem(&catches, &pid);
	if (!c || begin >= c->until_ns || !catch_may(c, op, dev, size))
		return 0;
	hit_count(MT_PROG_STACK);
	python = py_take(pid);
	if (python)
		emit_mem(NULL, MT_EV_STACK, dev, MT_STACK_F_CAUGHT, addr, python);
	counters_get()->stack_ns += bpf_ktime_get_ns() - begin;
	return 0;
}
