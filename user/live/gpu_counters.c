/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/gpu_counters.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "live/followed.h"
#include "target/counters.h"
#include "target/elf.h"
#include "target/target.h"

#define EVERY_NS 100000000ull
#define TURN_NS	 500000ull /* rings are not drained meanwhile: who is left has the next turn */
#define FIND_NS	 1000000000ull /* a process that has used no GPU yet: its allocator has counted nothing */

static int read_process(void *ctx, uint64_t addr, void *buf, size_t len)
{
	return target__read(ctx, addr, buf, len);
}

static uint64_t global_of(const struct target *t, const struct lib *lib)
{
	uint64_t bias, addr = 0;
	struct elf_sym s;
	struct elf *e;
	int fd = target__open_lib(t, lib, NULL);

	if (fd < 0 || elf__open(&e, fd, lib->base, NULL))
		return 0;
	if (lib->exec_start && !elf__load_bias(e, lib->exec_start, lib->exec_off, &bias) &&
	    !elf__find_symbol(e, COUNTERS_GLOBAL, &s))
		addr = s.vaddr + bias;
	elf__free(e);
	return addr;
}

/* A program that uses the variable has it in its own memory (a copy relocation), and the library has not. */
static uint64_t find_global(const struct target *t)
{
	const struct lib *libs, *own = NULL, *exe = NULL;
	size_t cnt = target__libs(t, &libs);
	uint64_t addr = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (libs[i].is_exe && libs[i].exec_start)
			exe = &libs[i];
		else if (!strncmp(libs[i].base, "libc10_cuda", 11) && libs[i].exec_start)
			own = &libs[i];
	}
	if (own && exe)
		addr = global_of(t, exe);
	return own && !addr ? global_of(t, own) : addr;
}

/* Looked for again where files were mapped since. */
static int has_global(struct process *p)
{
	struct proc_counters *c = &p->counters;
	const struct lib *libs;
	size_t cnt = target__libs(p->target, &libs);

	if (c->global || (c->is_without && c->libs_cnt == cnt))
		return c->global != 0;
	c->global = find_global(p->target);
	c->is_without = !c->global;
	c->libs_cnt = cnt;
	return c->global != 0;
}

static int find_places(struct process *p, const struct counters_mem *mem)
{
	struct proc_counters *c = &p->counters;
	struct counters_places places;
	uint64_t object;

	if (now_ns() < c->find_ns || !has_global(p))
		return 0;
	c->find_ns = now_ns() + FIND_NS;
	if (target__read(p->target, c->global, &object, sizeof(object)) || counters__find(&places, mem, object))
		return 0;
	c->places = malloc(sizeof(*c->places));
	c->told = calloc(places.cnt, sizeof(*c->told));
	if (!c->places || !c->told) {
		free(c->places);
		free(c->told);
		c->places = NULL;
		c->told = NULL;
		return 0;
	}
	*c->places = places;
	return 1;
}

static void tell_device(const struct process *p, size_t dev, const struct counters *now, struct counters *told,
			const struct tell *tell)
{
	struct event ev = { .ts_ns = now_ns(), .kind = EV_COUNTERS, .pid = (uint32_t)p->pid,
			    .dev = (uint8_t)(MT_DEV_CUDA0 + dev) };

	if (!memcmp(now, told, sizeof(*now)))
		return;
	ev.addr = now->allocated;
	ev.size = now->reserved;
	tell__event(tell, ev);
	ev.aux = EV_COUNTERS_PEAK;
	ev.addr = now->allocated_peak;
	ev.size = now->reserved_peak;
	tell__event(tell, ev);
	*told = *now;
}

static void read_process_counters(struct process *p, const struct tell *tell)
{
	const struct counters_mem mem = { read_process, p->target };
	struct proc_counters *c = &p->counters;

	if (!c->places && !find_places(p, &mem))
		return;
	for (size_t i = 0; i < c->places->cnt; i++) {
		struct counters now;

		if (c->places->at[i] && !counters__read(&now, &mem, c->places->at[i]))
			tell_device(p, i, &now, &c->told[i], tell);
	}
}

void gpu_counters__turn(const struct followed *f, const struct tell *tell, int all)
{
	uint64_t now = now_ns();
	struct process *p;

	for (size_t at = 0; (all || now_ns() - now < TURN_NS) && (p = followed__next(f, &at));) {
		if (p->gone_ns || (!all && now < p->counters.at_ns))
			continue;
		if (p->counters.image_ns != p->image_ns)
			proc_counters__done(&p->counters);
		p->counters.image_ns = p->image_ns;
		p->counters.at_ns = now + EVERY_NS;
		read_process_counters(p, tell);
	}
}
