/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "stack/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/free.h"
#include "base/map.h"
#include "memtrace/shared.h"
#include "python/code.h"
#include "stack/demangle.h"
#include "stack/intern.h"
#include "stack/merge.h"
#include "stack/modules.h"
#include "stack/unwind.h"
#include "target/target.h"

#define CODES_MAX 16384	       /* then all are dropped */
#define TABLES_BYTES_MAX (32u << 20)
#define PLACES_MAX 16384       /* likewise, for code addresses */
#define HASHES_MAX 65536       /* of Python frames */
#define REFRESH_NS 200000000ull /* the least time between two reads of a process's maps, if an address is unknown … */
#define REFRESH_REST 9		/* … and the pause after one, in multiples of its duration: maps may be long */

struct cap_proc {
	pid_t pid;
	uint32_t map_no; /* number of this map of its code, never used again */
	struct target *target;
	struct codemap *map;
	struct py_mem mem;
	struct py_runtime rt;
	uint64_t py_start, py_end; /* code of the interpreter's file */
	uint8_t has_rt, is_reported, is_hopeless;
	uint64_t refresh_ns; /* not read again before this time */
	uint32_t hashes_cnt; /* number of Python frames that it reported */
};

struct place_entry {
	uint64_t pc;
	uint32_t map_no;
	uint32_t word;
};

struct hash_entry {
	uint64_t hash;
	uint32_t list;
};

/* What is needed of a code object to know its lines: texts are names here. */
struct code_lines {
	uint64_t addr, check;
	uint8_t *table;
	uint64_t first_instr;
	name_id function, file;
	uint32_t table_len, firstlineno;
	pid_t pid;
};

struct capture {
	struct capture_env env;
	struct intern *intern;
	struct code_modules *modules;
	struct cap_proc **procs;
	size_t procs_cnt;
	struct cap_proc *last;
	uint32_t maps_cnt;
	struct code_lines *codes;
	struct place_entry *places;
	uint32_t codes_cnt, codes_cap, places_cnt, places_cap;
	struct index by_code, by_place;
	size_t tables_bytes;
	struct map hashes; /* struct hash_entry */
	uint32_t cut; /* the frame that marks it */
	uint64_t bad_cnt, lost_cnt;
};

struct capture *capture__new(const struct capture_env *env)
{
	struct capture *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->env = *env;
	c->intern = intern__new();
	c->modules = code_modules__new();
	c->procs = calloc(CAPTURE_PROCS_MAX, sizeof(struct cap_proc *));
	c->hashes = MAP_OF(struct hash_entry);
	if (c->intern)
		c->cut = intern__frame(c->intern, &(struct ev_frame){ .kind = EV_FRAME_CUT });
	if (!c->cut || !c->modules || !c->procs) {
		capture__free(c);
		return NULL;
	}
	return c;
}

static void cap_proc__free(struct cap_proc *p)
{
	if (!p)
		return;
	codemap__free(p->map);
	target__free(p->target);
	free(p);
}

static void capture__forget_codes(struct capture *c)
{
	for (uint32_t i = 0; i < c->codes_cnt; i++)
		free(c->codes[i].table);
	c->codes_cnt = 0;
	index__clear(&c->by_code);
	c->tables_bytes = 0;
}

void capture__free(struct capture *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->procs_cnt; i++)
		cap_proc__free(c->procs[i]);
	capture__forget_codes(c);
	index__done(&c->by_code);
	index__done(&c->by_place);
	map__done(&c->hashes);
	free_all(c->codes, c->places, c->procs);
	code_modules__free(c->modules);
	intern__free(c->intern);
	free(c);
}

uint64_t capture__bad_cnt(const struct capture *c)
{
	return c->bad_cnt;
}

pid_t capture__next_over(struct capture *c)
{
	return (pid_t)intern__next_over(c->intern);
}

uint64_t capture__lost_cnt(const struct capture *c)
{
	return c->lost_cnt;
}

/* --- processes ----------------------------------------------------------------------------------------- */

static void capture__map(struct capture *c, struct cap_proc *p)
{
	codemap__free(p->map);
	p->map = codemap__new(c->modules, p->target);
	p->map_no = ++c->maps_cnt;
	p->refresh_ns = now_ns() + REFRESH_NS;
}

static uint16_t or_none(uint16_t off)
{
	return off ? off : MT_PY_NO_OFFSET;
}

struct mt_py_proc capture_how(const struct py_frame_offsets *at, const struct py_tsd *tsd)
{
	return (struct mt_py_proc){
		.tsd_table = tsd->table,
		.tsd_key = tsd->key,
		.tstate_thread_id = at->tstate_thread_id,
		.tstate_frame = at->tstate_frame,
		.cframe_frame = at->has_cframe ? at->cframe_frame : MT_PY_NO_OFFSET,
		.frame_bytes = at->frame_bytes,
		.frame_previous = at->frame_previous,
		.frame_code = at->frame_code,
		.frame_instr = at->frame_instr,
		.frame_owner = or_none(at->frame_owner),
		.frame_entry = or_none(at->frame_entry),
		.code_check = at->code_check,
		.owner_shim = at->owner_shim,
		.entry_always = at->minor == 10,
		.instr_bytes = at->minor == 10 ? 4 : 8,
	};
}

static void capture__find_python(struct capture *c, struct cap_proc *p)
{
	struct mt_py_proc how;
	struct err err = { 0 };
	struct py_tsd tsd;
	char text[480];
	int r;

	if (!c->env.python || p->is_reported || p->is_hopeless)
		return;
	if (!p->has_rt) {
		r = py_runtime__find(&p->rt, p->target, &p->mem, &err);
		if (r == -ENOENT)
			return;
		if (r < 0) {
			p->is_hopeless = 1;
			snprintf(text, sizeof(text), "no Python frames: %.380s", err.msg);
			c->env.note(c->env.ctx, p->pid, text);
			return;
		}
		p->has_rt = 1;
		p->py_start = p->rt.lib->exec_start;
		p->py_end = p->rt.lib->exec_end;
		p->rt.lib = NULL; /* valid only until the next refresh */
	}
	if (py_runtime__tsd(&p->rt, p->target, &p->mem, &tsd))
		return;
	how = capture_how(p->rt.at, &tsd);
	p->is_reported = !c->env.python(c->env.ctx, p->pid, &how);
}

static struct cap_proc *capture__open(struct capture *c, pid_t pid)
{
	struct cap_proc *p;

	if (c->procs_cnt == CAPTURE_PROCS_MAX)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p || target__open(&p->target, pid, NULL)) {
		free(p);
		return NULL;
	}
	p->pid = pid;
	p->mem = py_mem_of(p->target);
	capture__map(c, p);
	if (!p->map) {
		cap_proc__free(p);
		return NULL;
	}
	c->procs[c->procs_cnt++] = p;
	return c->last = p;
}

static struct cap_proc *capture__proc(struct capture *c, pid_t pid)
{
	if (c->last && c->last->pid == pid)
		return c->last;
	for (size_t i = 0; i < c->procs_cnt; i++)
		if (c->procs[i]->pid == pid)
			return c->last = c->procs[i];
	return NULL;
}

void capture__end(struct capture *c, pid_t pid)
{
	intern__drop_owner(c->intern, (uint32_t)pid);
	for (size_t i = 0; i < c->procs_cnt; i++) {
		if (c->procs[i]->pid != pid)
			continue;
		if (c->procs[i]->is_reported)
			(void)c->env.python(c->env.ctx, pid, NULL);
		cap_proc__free(c->procs[i]);
		c->procs[i] = c->procs[--c->procs_cnt];
		c->last = NULL;
		return;
	}
}

int capture__reads_python(struct capture *c, pid_t pid)
{
	const struct cap_proc *p = capture__proc(c, pid);

	return p && p->is_reported;
}

int capture__has(struct capture *c, pid_t pid)
{
	return capture__proc(c, pid) != NULL;
}

void capture__begin(struct capture *c, pid_t pid)
{
	struct cap_proc *p;

	capture__end(c, pid);
	p = capture__open(c, pid);
	if (!p)
		return;
	if (c->env.native)
		codemap__load_symbols(p->map);
	capture__find_python(c, p);
}

/* An address that no known file has: a library may have been loaded since. */
static void capture__refresh(struct capture *c, struct cap_proc *p)
{
	uint64_t begin_ns = now_ns(), took_ns;

	if (begin_ns < p->refresh_ns)
		return;
	if (target__refresh(p->target, NULL) > 0)
		capture__map(c, p);
	if (p->map)
		capture__find_python(c, p);
	took_ns = now_ns() - begin_ns;
	p->refresh_ns = begin_ns + took_ns + (took_ns * REFRESH_REST > REFRESH_NS ? took_ns * REFRESH_REST : REFRESH_NS);
}

void capture__retry(struct capture *c)
{
	for (size_t i = 0; i < c->procs_cnt; i++)
		if (c->env.python && !c->procs[i]->is_reported && !c->procs[i]->is_hopeless)
			capture__refresh(c, c->procs[i]);
}

/* --- Python --------------------------------------------------------------------------------------------- */

/* A name chosen by a process. */
static name_id capture__name(struct capture *c, const struct cap_proc *p, const char *text)
{
	return names__add_of(c->env.names, p ? (uint32_t)p->pid : 0, text, strlen(text));
}

static int is_code(const struct code_lines *l, pid_t pid, uint64_t addr, uint64_t check)
{
	return l->addr == addr && l->check == check && l->pid == pid;
}

/* Reads the code object; NULL: it no longer exists. */
static const struct code_lines *capture__code(struct capture *c, const struct cap_proc *p, uint64_t addr, uint64_t check)
{
	uint64_t hash = hash_two(hash_two(addr, check), (uint64_t)p->pid);
	uint32_t at = index_find(&c->by_code, hash, i, is_code(&c->codes[i], p->pid, addr, check));
	struct py_code code;

	if (at != INDEX_NONE)
		return &c->codes[at];
	if (py_code__read(&code, &p->rt, &p->mem, addr, check))
		return NULL;
	if (c->codes_cnt >= CODES_MAX || c->tables_bytes + code.table_len > TABLES_BYTES_MAX)
		capture__forget_codes(c);
	if (!array_has_room(c->codes, c->codes_cnt, c->codes_cap, 256) || index__add(&c->by_code, hash, c->codes_cnt) < 0) {
		free(code.table);
		return NULL;
	}
	c->codes[c->codes_cnt] = (struct code_lines){
		.addr = addr, .check = check, .pid = p->pid, .table = code.table, .table_len = (uint32_t)code.table_len,
		.first_instr = code.first_instr, .firstlineno = code.firstlineno,
		.function = capture__name(c, p, code.function), .file = capture__name(c, p, code.file),
	};
	c->tables_bytes += code.table_len;
	return &c->codes[c->codes_cnt++];
}

/* <python 0x…>: a code object that was freed before it was read. Only its address is known. */
static struct ev_frame frame_unknown(struct capture *c, const struct cap_proc *p, uint64_t addr)
{
	char text[40];

	snprintf(text, sizeof(text), "<python 0x%llx>", (unsigned long long)addr);
	return (struct ev_frame){ .kind = EV_FRAME_PYTHON, .function = capture__name(c, p, text) };
}

static uint32_t capture__python_frame(struct capture *c, const struct cap_proc *p, const struct mt_py_frame *f)
{
	const struct code_lines *l = p ? capture__code(c, p, f->code & ~(uint64_t)MT_PY_ENTRY, f->check) : NULL;
	struct ev_frame frame;
	uint32_t word;

	if (l) {
		struct py_code code = { .table = l->table, .table_len = l->table_len, .firstlineno = l->firstlineno,
					.first_instr = l->first_instr };

		frame = (struct ev_frame){ .kind = EV_FRAME_PYTHON, .function = l->function, .file = l->file,
					.line = py_code__line(&code, p->rt.at->minor, f->instr) };
	} else {
		frame = frame_unknown(c, p, f->code & ~(uint64_t)MT_PY_ENTRY);
	}
	word = intern__frame(c->intern, &frame);
	return word && (f->code & MT_PY_ENTRY) ? word | LIST_PYTHON : word;
}

static int capture__python(struct capture *c, const struct mt_rec_py *r, size_t len)
{
	struct cap_proc *p = capture__proc(c, (pid_t)r->hdr.pid);
	uint32_t words[MT_PY_FRAMES_MAX], n = 0;
	struct hash_entry *h;
	uint32_t list;

	if (len < offsetof(struct mt_rec_py, frames) || r->frames_cnt > MT_PY_FRAMES_MAX || !r->hash ||
	    len != offsetof(struct mt_rec_py, frames) + r->frames_cnt * sizeof(r->frames[0])) {
		c->bad_cnt++;
		return 0;
	}
	if (map__find(&c->hashes, r->hash) || c->hashes.cnt >= HASHES_MAX ||
	    (p && p->hashes_cnt >= (HASHES_MAX - c->hashes.cnt) / 8))
		return 0; /* known, or no room for this process: counted when it is used */
	intern__by(c->intern, r->hdr.pid);
	for (n = 0; n < r->frames_cnt; n++) {
		words[n] = capture__python_frame(c, p && p->has_rt ? p : NULL, &r->frames[n]);
		if (!words[n])
			return 0;
	}
	list = intern__list(c->intern, words, n, !!r->is_cut);
	h = list ? map__put(&c->hashes, r->hash) : NULL;
	if (!h)
		return 0;
	h->list = list;
	if (p)
		p->hashes_cnt++;
	return 0;
}

/* --- native -------------------------------------------------------------------------------------------- */

static struct ev_frame frame_of_pc(struct capture *c, struct cap_proc *p, uint64_t pc)
{
	struct ev_frame f = { .kind = EV_FRAME_NATIVE };
	struct code_place place;
	char text[DEMANGLE_MAX];

	if (codemap__place(p->map, pc, &place)) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)pc);
	} else {
		f.file = capture__name(c, p, place.file);
		if (place.symbol)
			demangle(text, place.symbol);
		else
			snprintf(text, sizeof(text), "%.400s+0x%llx", place.file, (unsigned long long)place.offset);
	}
	f.function = capture__name(c, p, text);
	return f;
}

static uint32_t capture__place(struct capture *c, struct cap_proc *p, uint64_t pc)
{
	uint64_t hash = hash_two(p->map_no, pc);
	uint32_t at = index_find(&c->by_place, hash, i, c->places[i].pc == pc && c->places[i].map_no == p->map_no), word;
	struct ev_frame f;

	if (at != INDEX_NONE)
		return c->places[at].word;
	f = frame_of_pc(c, p, pc);
	word = intern__frame(c->intern, &f);
	if (!word)
		return 0;
	if (p->has_rt && pc >= p->rt.eval_start && pc < p->rt.eval_end)
		word |= LIST_EVAL;
	if (p->has_rt && pc >= p->py_start && pc < p->py_end)
		word |= LIST_PYTHON;
	if (c->places_cnt >= PLACES_MAX) {
		index__clear(&c->by_place);
		c->places_cnt = 0;
	}
	if (array_has_room(c->places, c->places_cnt, c->places_cap, 256) && !index__add(&c->by_place, hash, c->places_cnt))
		c->places[c->places_cnt++] = (struct place_entry){ pc, p->map_no, word };
	return word;
}

/* Number of the list of frames; 0: none. */
static uint32_t capture__unwind(struct capture *c, struct cap_proc *p, const struct mt_rec_raw *r)
{
	struct unwind u = { .is_return = !!(r->hdr.flags & MT_STACK_F_RETURN), .bytes = r->bytes,
			    .bytes_cnt = r->bytes_cnt, .row = codemap__row, .ctx = p->map };
	uint64_t pcs[UNWIND_MAX];
	uint32_t words[UNWIND_MAX];
	int is_cut;
	size_t n;

	for (unsigned i = 0; i < MT_STACK_REGS; i++)
		u.regs[i] = r->regs[i];
	n = unwind(&u, pcs, UNWIND_MAX, &is_cut);
	if (is_cut && n && !codemap__has(p->map, pcs[n - 1])) {
		capture__refresh(c, p);
		if (!p->map)
			return 0;
		u.ctx = p->map;
		n = unwind(&u, pcs, UNWIND_MAX, &is_cut);
	}
	for (size_t i = 0; i < n; i++) {
		words[i] = capture__place(c, p, pcs[i]);
		if (!words[i])
			return 0;
	}
	return intern__list(c->intern, words, n, is_cut);
}

/* --- records -------------------------------------------------------------------------------------------- */

int capture__wants(const void *rec, size_t len)
{
	const struct mt_hdr *h = rec;

	return len >= sizeof(*h) && (h->kind == MT_EV_STACK || h->kind == MT_EV_STACK_RAW || h->kind == MT_EV_STACK_PY);
}

static struct event event_of(const struct mt_hdr *h, uint64_t addr, uint64_t python, uint32_t native)
{
	int is_caught = h->kind == MT_EV_STACK && h->flags & MT_STACK_F_CAUGHT;

	return (struct event){ .ts_ns = h->ts_ns, .kind = is_caught ? EV_CAUGHT : EV_STACK_AT, .pid = h->pid, .tid = h->tid,
			       .dev = h->dev, .addr = addr, .size = python, .aux = native };
}

static int capture__raw(struct capture *c, const struct mt_rec_raw *r, size_t len, struct event *ret)
{
	struct cap_proc *p;
	uint32_t native;

	if (len != sizeof(*r) || r->bytes_cnt > sizeof(r->bytes)) {
		c->bad_cnt++;
		return 0;
	}
	p = capture__proc(c, (pid_t)r->hdr.pid);
	intern__by(c->intern, r->hdr.pid);
	native = p && p->map ? capture__unwind(c, p, r) : 0;
	if (!native)
		c->lost_cnt++;
	*ret = event_of(&r->hdr, r->addr, r->python, native);
	return native || r->python;
}

int capture__record(struct capture *c, const void *rec, size_t len, struct event *ret)
{
	const struct mt_hdr *h = rec;
	const struct mt_rec_mem *m = rec;

	if (h->kind == MT_EV_STACK_PY)
		return capture__python(c, rec, len);
	if (h->kind == MT_EV_STACK_RAW)
		return capture__raw(c, rec, len, ret);
	if (len != sizeof(*m)) {
		c->bad_cnt++;
		return 0;
	}
	*ret = event_of(h, m->addr, m->size, 0);
	return 1;
}

/* --- in time order ------------------------------------------------------------------------------------- */

static int capture__tell(struct capture *c, const struct event *at, uint32_t node, uint32_t parent, uint32_t frame,
			 event_fn fn, void *ctx)
{
	const struct ev_frame *f = intern__frame_at(c->intern, frame);

	return fn(ctx, &(struct event){ .ts_ns = at->ts_ns, .kind = EV_STACK, .pid = at->pid, .tid = at->tid,
					.seq = node, .size = parent, .name = f->function, .addr = f->file.v,
					.aux = f->line, .flags = f->kind });
}

/* The node of merged frames, entered into the tree outermost first; 0: no room; < 0: fn's error. */
static int64_t capture__node(struct capture *c, const struct event *ev, const uint32_t *frames, size_t cnt, event_fn fn,
			     void *ctx)
{
	uint32_t node = 0, parent;
	int is_new, r;

	while (cnt--) {
		parent = node;
		node = intern__node(c->intern, parent, frames[cnt], &is_new);
		if (!node)
			return 0;
		r = is_new ? capture__tell(c, ev, node, parent, frames[cnt], fn, ctx) : 0;
		if (r < 0)
			return r;
	}
	return node;
}

static int64_t capture__merge(struct capture *c, const struct event *ev, uint32_t native, uint32_t python, event_fn fn,
			      void *ctx)
{
	uint32_t frames[MERGE_MAX], kept = intern__pair(c->intern, native, python);
	struct frames_in n = { 0 }, p = { 0 };
	int64_t node;

	if (kept)
		return kept;
	if (native)
		n.words = intern__list_at(c->intern, native, &n.cnt, &n.is_cut);
	if (python)
		p.words = intern__list_at(c->intern, python, &p.cnt, &p.is_cut);
	node = capture__node(c, ev, frames, merge(&n, &p, c->cut, frames), fn, ctx);
	if (node > 0)
		intern__keep_pair(c->intern, native, python, (uint32_t)node);
	return node;
}

int capture__resolve(struct capture *c, struct event *ev, event_fn fn, void *ctx)
{
	const struct hash_entry *h;
	uint32_t native, python;
	int64_t node;

	if (ev->kind != EV_STACK_AT && ev->kind != EV_CAUGHT)
		return 1;
	intern__by(c->intern, ev->pid);
	h = ev->size ? map__find(&c->hashes, ev->size) : NULL;
	python = h ? h->list : 0;
	native = ev->aux;
	node = native || python ? capture__merge(c, ev, native, python, fn, ctx) : 0;
	if (ev->kind == EV_STACK_AT && (!node || (ev->size && !h))) /* a caught stack may be incomplete */
		c->lost_cnt++;
	if (node <= 0)
		return (int)node;
	ev->size = (uint64_t)node;
	ev->aux = 0;
	return 1;
}
