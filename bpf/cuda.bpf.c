// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The memory API of GPUs: CUDA's runtime and driver, NCCL, HIP. What a function does is in a spec
 * (user/plan/catalog_gpu.c); one pair of programs serves all functions. Calls are rare (a caching
 * allocator stands before them), so a return probe is affordable. It is needed: pointers and handles
 * come back through memory, a size may (pitch), and a call that failed has changed nothing.
 *
 * The runtime calls the driver, NCCL both, so only the outermost call of a thread counts, recognised by
 * its stack pointer as in host.bpf.c. A call that never returns (longjmp, an exception) would make every
 * deeper call look nested for ever, so the word at its return address is checked too: while the call is
 * open it is the kernel's trampoline, the first byte of a page, or, where the kernel could not set its
 * return probe, the address that was there.
 *
 * A free has the time of its entry: after that another thread may be given the address. It may first
 * wait for the device, for longer than user space waits to put events in order (50 ms): then its time is
 * 40 ms before its return.
 *
 * CUDA's events show how long a freed block waits for another stream: the caching allocator records them between its
 * USDT probe `free` and its report of the block, and asks for them until they are over. All other events pass by here.
 */
#include "lib/frames.h"
#include "lib/stack.h"

#define FREE_BACK_NS 40000000ull
#define LOCATION_DEVICE 1
#define LOCATION_NONE 0

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_SEG_SPECS_MAX);
	__type(key, u32);
	__type(value, struct mt_seg_spec);
} seg_specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_TARGETS_MAX);
	__type(key, u32);
	__type(value, struct mt_seg_proc);
} seg_procs SEC(".maps");

struct stream_event {
	u64 event;
	u64 pid;
};

/* Events that keep a freed block. The oldest are dropped: no process still queries so many. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct stream_event);
	__type(value, u8);
} stream_events SEC(".maps");

static __always_inline struct stream_event stream_event(u64 event)
{
	return (struct stream_event){ event, bpf_get_current_pid_tgid() >> 32 };
}

static __always_inline int stream_matters(const struct mt_thread *t, u8 what, u64 event)
{
	struct stream_event key = stream_event(event);

	return what == MT_STREAM_WAITS ? t->freeing != 0 : bpf_map_lookup_elem(&stream_events, &key) != NULL;
}

static __always_inline void stream_done(const struct mt_thread *t, u8 what, u64 event)
{
	struct stream_event key = stream_event(event);
	u8 one = 1;

	if (what == MT_STREAM_OVER)
		(void)bpf_map_delete_elem(&stream_events, &key); /* gone: another thread found it over, too */
	else if (bpf_map_update_elem(&stream_events, &key, &one, BPF_ANY))
		loss_count(MT_LOSS_PENDING);
	emit_mem(t, MT_EV_STREAM, MT_DEV_NONE, what, event, what == MT_STREAM_WAITS ? t->freeing : 0);
}

static __always_inline const struct mt_seg_proc *seg_proc(void)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&seg_procs, &pid);
}

/* A thread begins with device 0. One that is older than the probes may have chosen another: not known. */
static __always_inline void seg_first_seen(struct mt_thread *t)
{
	const struct mt_seg_proc *p;

	if (t->gpu_late)
		return;
	t->gpu_late = 1;
	p = seg_proc();
	if (p && p->since_ns && bpf_get_current_task_btf()->start_time > p->since_ns)
		t->gpu_dev = MT_DEV_CUDA0;
}

/* Whether a call that began at stack pointer `sp` is inside the one that is kept. */
static __always_inline int seg_nested(struct mt_seg_call *p, u64 sp)
{
	u64 word = 0;

	if (!p->sp || sp > p->sp)
		return 0;
	if (!return_word(p->sp, &word) && word) {
		if (!(word & (PAGE_SIZE - 1)))
			return 1;
		if (sp < p->sp && word == p->ret)
			return 1;
	}
	return 0;
}

/*
 * Whether a call of the driver's or runtime's is a communication library's: inside one of its calls that make or
 * end a communicator, or out of its code, wherever that runs: proxies and helpers have threads of their own.
 */
static __always_inline int seg_for_comm(struct mt_thread *t, const struct mt_seg_call *c)
{
	const struct mt_seg_proc *p;

	if (seg_nested(&t->comm, c->sp))
		return 1;
	p = seg_proc();
	return p && c->ret - p->comm_start < p->comm_end - p->comm_start;
}

/* Argument `where` of the call. */
static __always_inline u64 seg_argument(const struct mt_seg_call *p, u8 where)
{
	u64 v = 0;

	if (where < MT_ARG_STACK)
		return p->regs[where & 7];
	if (bpf_probe_read_user(&v, sizeof(v), (void *)stack_arg(p->sp, where - MT_ARG_STACK))) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	return v;
}

static __always_inline u64 seg_read(const struct mt_seg_arg *a, u64 at)
{
	u32 four = 0;
	u64 v = 0;
	long r;

	at += a->off;
	if (a->bytes == 4) {
		r = bpf_probe_read_user(&four, sizeof(four), (void *)at);
		v = four;
	} else {
		r = bpf_probe_read_user(&v, sizeof(v), (void *)at);
	}
	if (r) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	return v;
}

/* struct cudaChannelFormatDesc { int x, y, z, w; … }: bits a channel. */
static __always_inline u64 seg_channels(u64 at)
{
	u32 bits[4] = {};

	if (bpf_probe_read_user(bits, sizeof(bits), (void *)at)) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	return ((u64)bits[0] + bits[1] + bits[2] + bits[3]) / 8;
}

static __always_inline u64 seg_format_bytes(u64 format)
{
	switch (format) {
	case 0x01: /* (un)signed 8 bits */
	case 0x08: return 1;
	case 0x02: /* 16 bits, half */
	case 0x09:
	case 0x10: return 2;
	case 0x03: /* 32 bits, float */
	case 0x0a:
	case 0x20: return 4;
	default: return 0;
	}
}

/*
 * The functions below are global: the verifier looks at each once and not at every path of every caller.
 * The value as known at the entry; for OUT the pointer that will be followed at the return.
 */
__noinline u64 seg_entry_value(struct mt_seg_call *p, const struct mt_seg_arg *a)
{
	u64 v;

	if (!p || !a || a->form == MT_SEG_NO)
		return 0;
	v = seg_argument(p, a->where);
	if (a->form == MT_SEG_IN)
		return a->as == MT_SEG_CHANNELS ? seg_channels(v + a->off) : seg_read(a, v);
	if (a->form == MT_SEG_ARG && a->bytes == 4)
		return (u32)v;
	return v;
}

__noinline u64 seg_exit_value(const struct mt_seg_arg *a, u64 kept)
{
	if (!a)
		return 0;
	return a->form == MT_SEG_OUT ? seg_read(a, kept) : kept;
}

static __always_inline u8 seg_cuda(u64 number)
{
	return (u32)number < MT_DEV_CUDA_MAX ? MT_DEV_CUDA0 + (u8)number : MT_DEV_NONE;
}

/* All that is reported is in the arguments; the device is a signed char. */
static __always_inline void seg_at_entry(const struct pt_regs *regs, const struct mt_thread *t, const struct mt_seg_spec *s)
{
	u64 args[8] = {};

	args_take(args, regs);
	emit_seg(t, s->kind, seg_cuda((u8)args[s->dev.where & 7]), s->seg, s->api, args[s->addr.where & 7],
		 args[s->size[0].where & 7], 0, bpf_ktime_get_ns());
}

SEC("uprobe")
int mt_seg_enter(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	u32 i = (u32)cookie;
	const struct mt_seg_spec *s = bpf_map_lookup_elem(&seg_specs, &i);
	struct mt_thread *t;
	struct mt_seg_call *p;

	hit_count(MT_PROG_SEG_ENTER);
	fired_count(cookie);
	if (!s)
		return 0;
	t = thread_get();
	if (!t)
		return 0;
	if (s->kind == MT_EV_STREAM && !stream_matters(t, s->seg, arg(ctx, 0)))
		return 0;
	if (s->sets == MT_SEG_AT_ENTRY) {
		seg_at_entry(ctx, t, s);
		return 0;
	}
	if (s->kind == MT_EV_SEG_FREE)
		t->freeing = 0; /* without caching: no report comes */
	p = s->sets == MT_SEG_SETS_COMM ? &t->comm : &t->seg;
	seg_first_seen(t);
	if (seg_nested(p, sp_of(ctx)))
		return 0;
	if (p->sp)
		loss_count(MT_LOSS_PENDING); /* left by longjmp or an exception: nothing is known of it */
	p->sp = sp_of(ctx);
	p->ret = 0;
	if (return_word(sp_of(ctx), &p->ret))
		loss_count(MT_LOSS_READ_FAULT);
	p->ts_ns = bpf_ktime_get_ns();
	p->spec = i;
	args_take(p->regs, ctx);
	p->addr = seg_entry_value(p, &s->addr);
	p->aux = seg_entry_value(p, &s->aux);
	p->dev = seg_entry_value(p, &s->dev);
	p->asked = seg_entry_value(p, &s->asked);
	for (int k = 0; k < MT_SEG_FACTORS; k++)
		p->size[k] = seg_entry_value(p, &s->size[k]);
	p->comm = s->kind == MT_EV_SEG_ALLOC && seg_for_comm(t, p);
	return 0;
}

/* n * size, saturating; BPF has no 128-bit product for the compiler's own overflow check. */
static __always_inline u64 product(u64 n, u64 size)
{
	u64 limit = n ? ~0ull / n : ~0ull;

	barrier_var(limit);
	return size > limit ? ~0ull : n * size;
}

/* Bytes at one mipmap level. */
__noinline u64 seg_size_at(const struct mt_seg_spec *s, const struct mt_seg_call *p, u32 level, u32 layered)
{
	u64 bytes = 1;

	if (!s || !p)
		return 0;
	for (int k = 0; k < MT_SEG_FACTORS; k++) {
		u64 v = p->size[k];

		switch (s->size[k].form == MT_SEG_NO ? 255 : s->size[k].as) {
		case MT_SEG_COUNT:
			if (!layered || k < 2) /* width and height come first */
				v >>= level;
			bytes = product(bytes, v ? v : 1);
			break;
		case MT_SEG_PLAIN:
		case MT_SEG_CHANNELS:
			bytes = product(bytes, v);
			break;
		case MT_SEG_FORMAT:
			bytes = product(bytes, seg_format_bytes(v));
			break;
		}
	}
	return bytes;
}

#define LEVELS_MAX 18 /* 2^17 elements a side are the most that CUDA allows */
#define LAYERED_OR_CUBEMAP 5

__noinline u64 seg_size(const struct mt_seg_spec *s, const struct mt_seg_call *p)
{
	u32 levels = 1, layered = 0;
	u64 bytes = 0;

	if (!s || !p || s->size[0].form == MT_SEG_NO)
		return 0;
	for (int k = 0; k < MT_SEG_FACTORS; k++) {
		if (s->size[k].as == MT_SEG_LEVELS)
			levels = p->size[k];
		if (s->size[k].as == MT_SEG_LAYERED)
			layered = p->size[k] & LAYERED_OR_CUBEMAP;
	}
	for (u32 l = 0; l < LEVELS_MAX; l++) {
		u64 more;

		if (l >= levels)
			break;
		more = seg_size_at(s, p, l, layered);
		bytes = bytes + more < bytes ? ~0ull : bytes + more;
	}
	return bytes;
}

static __always_inline u8 seg_device(const struct mt_thread *t, const struct mt_seg_spec *s, u64 dev)
{
	switch (s->whose) {
	case MT_SEG_DEV_THREAD: return t->gpu_dev;
	case MT_SEG_DEV_ARG: return seg_cuda(dev);
	case MT_SEG_DEV_LOCATION:
		if ((u32)dev == LOCATION_DEVICE)
			return seg_cuda(dev >> 32);
		return (u32)dev == LOCATION_NONE ? MT_DEV_NONE : MT_DEV_HOST;
	default: return MT_DEV_NONE;
	}
}

static __always_inline void seg_sets(struct mt_thread *t, const struct mt_seg_spec *s, u64 addr, u8 dev)
{
	if (s->sets == MT_SEG_SETS_NOTHING || s->sets == MT_SEG_SETS_COMM)
		return;
	t->gpu_dev = dev;
	t->gpu_ctx = s->sets == MT_SEG_SETS_CONTEXT ? addr : 0;
}

static __always_inline u8 seg_flags(const struct mt_seg_spec *s, const struct mt_seg_call *p)
{
	return p->comm ? s->seg | MT_SEG_F_COMM : s->seg;
}

/* The call failed: of interest only if it should have given memory, or if it ends something even so. */
static __always_inline void seg_failed(struct mt_thread *t, const struct mt_seg_spec *s, struct mt_seg_call *p,
				       u32 code)
{
	u8 dev = seg_device(t, s, p->dev);

	if (s->kind == MT_EV_SEG_GRAPH && s->seg == MT_GRAPH_CAPTURED)
		emit_seg(t, s->kind, dev, s->seg, s->api, 0, 0, p->aux, bpf_ktime_get_ns());
	if (s->kind != MT_EV_SEG_ALLOC || s->size[0].form == MT_SEG_NO)
		return;
	for (int k = 0; k < MT_SEG_FACTORS; k++)
		if (s->size[k].form == MT_SEG_OUT)
			p->size[k] = p->asked;
	emit_seg(t, MT_EV_SEG_FAIL, dev, seg_flags(s, p), s->api, 0, seg_size(s, p), code, bpf_ktime_get_ns());
}

static __always_inline void seg_done(const struct pt_regs *regs, struct mt_thread *t, const struct mt_seg_spec *s,
				     struct mt_seg_call *p)
{
	u64 addr, aux, size, now = bpf_ktime_get_ns(), ts_ns = p->ts_ns;
	u8 dev;

	if (now - ts_ns > FREE_BACK_NS)
		ts_ns = now - FREE_BACK_NS;
	addr = seg_exit_value(&s->addr, p->addr);
	aux = seg_exit_value(&s->aux, p->aux);
	for (int k = 0; k < MT_SEG_FACTORS; k++)
		p->size[k] = seg_exit_value(&s->size[k], p->size[k]);
	dev = seg_device(t, s, p->dev);
	seg_sets(t, s, addr, dev);
	size = seg_size(s, p);
	switch (s->kind) {
	case MT_EV_SEG_ALLOC:
	case MT_EV_SEG_MAP:
		ts_ns = now;
		if (s->kind == MT_EV_SEG_ALLOC && s->aux.form == MT_SEG_NO && s->whose == MT_SEG_DEV_THREAD)
			aux = t->gpu_ctx;
		if (s->kind == MT_EV_SEG_ALLOC && addr)
			stack_at(t, regs, dev, MT_STACK_F_RETURN, addr, size);
		break;
	case MT_EV_SEG_FREE:
	case MT_EV_SEG_UNMAP:
		break;
	case MT_EV_SEG_RESET:
		if (addr && addr == t->gpu_ctx) { /* no longer current */
			dev = t->gpu_dev;
			t->gpu_dev = t->gpu_ctx = 0;
		}
		/* fall through */
	case MT_EV_SEG_TRIM:
		emit_seg(t, s->kind, dev, seg_flags(s, p), s->api, addr, size, aux, ts_ns);
		return;
	case MT_EV_SEG_COMM:
	case MT_EV_SEG_GRAPH:
	case MT_EV_SEG_POOL:
		emit_seg(t, s->kind, dev, s->seg, s->api, addr, size, aux, now);
		return;
	case MT_EV_STREAM:
		stream_done(t, s->seg, addr);
		return;
	default: /* only the thread's device or context has changed */
		return;
	}
	if (addr) /* cudaFree(NULL) and cudaMalloc(0) succeed and do nothing */
		emit_seg(t, s->kind, dev, seg_flags(s, p), s->api, addr, size, aux, ts_ns);
}

#define NCCL_IN_PROGRESS 7 /* a communicator that does not block: it is made in the background */

/* cudaError_t, CUresult, ncclResult_t, hipError_t: 0 is success. */
static __always_inline int seg_has_failed(const struct mt_seg_spec *s, u32 code)
{
	return code && !(s->sets == MT_SEG_SETS_COMM && code == NCCL_IN_PROGRESS);
}

SEC("uretprobe")
int mt_seg_ret(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	const struct mt_seg_spec *s;
	struct mt_seg_call *p;
	u32 i;

	hit_count(MT_PROG_SEG_RET);
	if (!t)
		return 0;
	p = t->comm.sp && sp_of(ctx) == sp_after(t->comm.sp) ? &t->comm : &t->seg;
	if (!p->sp || sp_of(ctx) != sp_after(p->sp))
		return 0;
	i = p->spec;
	s = bpf_map_lookup_elem(&seg_specs, &i);
	if (s) {
		frames_settle(t, sp_of(ctx));
		if (seg_has_failed(s, (u32)result_of(ctx)))
			seg_failed(t, s, p, (u32)result_of(ctx));
		else
			seg_done(ctx, t, s, p);
	}
	p->sp = 0;
	return 0;
}
