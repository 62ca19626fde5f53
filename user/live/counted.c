/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/counted.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/self.h"
#include "event/decode.h"
#include "event/order.h"
#include "keeper/keeper.h"
#include "live/follow.h"
#include "live/followed.h"
#include "live/naming.h"
#include "live/placing.h"
#include "live/nvml.h"
#include "live/probing.h"
#include "live/stream.h"
#include "live/usage.h"
#include "stack/capture.h"

/* --- at the beginning ------------------------------------------------------------------------------ */

/* Two recordings of one boot share one clock and one space of pids, whatever their containers call the host. */
static uint64_t boot_hash(void)
{
	char id[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = f ? fread(id, 1, sizeof(id), f) : 0;

	if (f)
		fclose(f);
	return n ? XXH3_64bits(id, n) : 0;
}

/* What this kernel cannot probe without harm: memtrace has just tried it. */
static void counted__harmful(const struct counted *c)
{
	char list[600], text[800];

	if (!insn_classes_harmful(keeper__insn_classes(c->keeper), list, sizeof(list)))
		return;
	snprintf(text, sizeof(text), "on this kernel a probe on some instructions does harm, and none is set there: %s", list);
	tell__note(&c->tell, 0, text);
}

void counted__begin(struct counted *c, uint64_t start_ns, pid_t main_pid)
{
	struct timespec wall;
	struct utsname u;
	char text[300];

	uname(&u);
	snprintf(text, sizeof(text), "memtrace %s, %s %s, %s", MT_VERSION, u.sysname, u.release, u.nodename);
	clock_gettime(CLOCK_REALTIME, &wall);
	tell__event(&c->tell, (struct event){
		.ts_ns = start_ns,
		.kind = EV_BEGIN,
		.pid = (uint32_t)main_pid,
		.addr = (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec - now_ns(),
		.size = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
		.name = names__add(c->tell.names, text) });
	tell__event(&c->tell, (struct event){ .ts_ns = start_ns, .kind = EV_MACHINE, .addr = boot_hash(),
					      .name = names__add(c->tell.names, u.nodename) });
	counted__oom_kills(c);
	counted__harmful(c);
}

/* --- losses, and processes whose shares are used up ------------------------------------------------------ */

static void counted__loss(const struct counted *c, enum mt_loss reason, uint64_t cnt)
{
	if (cnt)
		tell__event(&c->tell, (struct event){ .kind = EV_LOSS, .aux = reason, .size = cnt });
}

static void counted__losses(const struct counted *c)
{
	const struct stream *st = c->stream;

	counted__loss(c, MT_LOSS_DECODE, decode__bad_cnt(st->decode) + (st->capture ? capture__bad_cnt(st->capture) : 0));
	counted__loss(c, MT_LOSS_STACKS, st->capture ? capture__lost_cnt(st->capture) : 0);
	counted__loss(c, MT_LOSS_ORDER, order__late_cnt(st->order));
	counted__loss(c, MT_LOSS_SIDEBAND, follow__sideband_lost(c->follow));
	counted__loss(c, MT_LOSS_FILES, probing__files_left_out(c->probing));
	counted__loss(c, MT_LOSS_THREADS, follow__procs_left_out(c->follow));
	counted__loss(c, MT_LOSS_NAMES, names__overflow_cnt(st->names) + (c->naming ? naming__left_out_cnt(c->naming) : 0) +
				       placing__left_out_cnt(st->placing));
	counted__loss(c, MT_LOSS_RECORDING, recorder__lost(&st->recorder, MT_LOSS_RECORDING));
	counted__loss(c, MT_LOSS_STALLED, recorder__lost(&st->recorder, MT_LOSS_STALLED));
}

static void counted__note_cut(const struct counted *c, uint32_t pid, uint64_t cnt)
{
	char text[200];

	if (cnt)
		snprintf(text, sizeof(text), "%llu events of process %u were left out for its share", (unsigned long long)cnt,
			 pid);
	else
		snprintf(text, sizeof(text), "process %u sent more than its share of what can be followed: part of its events "
			 "was left out, so that the others' are not lost", pid);
	tell__note(&c->tell, (pid_t)pid, text);
}

/* Processes that reported more than their share: noted when first seen, and with the amount at the end. */
static void counted__cut(const struct counted *c, int is_end)
{
	struct share *s = &c->stream->share;
	size_t rings_cnt;
	const struct mt_shares *rings = keeper__shares(c->keeper, &rings_cnt);

	for (uint32_t pid; (pid = share__next_cut(s, rings, rings_cnt));)
		counted__note_cut(c, pid, 0);
	for (size_t i = 0; is_end && i < s->named_cnt; i++)
		counted__note_cut(c, s->named[i], share__left_out(s, rings, rings_cnt, s->named[i]));
}

static void counted__full(const struct counted *c)
{
	struct stream *st = c->stream;

	for (pid_t pid; (pid = keeper__next_held_up(c->keeper));)
		tell__note(&c->tell, pid, "this process holds up who looks at its memory or files: it is not looked at "
					  "meanwhile");
	for (pid_t pid; (pid = keeper__next_live_over(c->keeper));)
		tell__note(&c->tell, pid, "this process has more live blocks above --min-size than leave room for others: "
					  "further ones are not shown");
	while (st->full_cnt)
		tell__note(&c->tell, (pid_t)st->full[--st->full_cnt],
			   "this process has used up its share of names: its further new ones are shown as \"?\"");
	for (pid_t pid; st->capture && (pid = capture__next_over(st->capture));)
		tell__note(&c->tell, pid, "this process has used up its share of stacks: its further new ones are not shown");
}

/* --- from time to time --------------------------------------------------------------------------------- */

void counted__oom_kills(struct counted *c)
{
	char line[128];
	unsigned long long cnt;
	FILE *f = fopen("/proc/vmstat", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "oom_kill %llu", &cnt) != 1)
			continue;
		if (cnt != c->oom_kills)
			tell__event(&c->tell, (struct event){ .kind = EV_OOM_KILL, .size = cnt,
							      .flags = keeper__tells_victims(c->keeper) });
		c->oom_kills = cnt;
		break;
	}
	if (f)
		fclose(f);
}

static void counted__fired(void *ctx, name_id sym, uint64_t cnt)
{
	const struct counted *c = ctx;

	if (cnt)
		tell__event(&c->tell, (struct event){ .kind = EV_FIRED, .name = sym, .size = cnt });
}

void counted__probes(struct counted *c)
{
	struct trace_counters of;

	keeper__counters(c->keeper, &of);
	for (unsigned i = 1; i < MT_PROG_MAX; i++)
		if (of.hits[i])
			tell__event(&c->tell, (struct event){ .kind = EV_COST, .aux = i, .addr = of.hits[i],
							      .size = of.cost_ns[i] });
	of.loss[MT_LOSS_SHARE] += c->stream->share.left_out;
	of.loss[MT_LOSS_SITES] += probing__sites_left_out(c->probing);
	of.loss[MT_LOSS_READ_FAULT] += keeper__held_up_cnt(c->keeper);
	for (unsigned i = 1; i < MT_LOSS_MAX; i++)
		counted__loss(c, (enum mt_loss)i, of.loss[i]);
	(void)keeper__each_fired(c->keeper, counted__fired, c);
}

static void counted__devices(const struct counted *c)
{
	pid_t pids[FOLLOW_PROCS_MAX];

	if (c->nvml)
		nvml__read(c->nvml, pids, followed__pids(c->usage->followed, pids, FOLLOW_PROCS_MAX), &c->tell);
}

static void counted__self(const struct counted *c)
{
	uint64_t own_ns, own_rss, keeper_ns = 0, keeper_rss = 0;

	self_usage(&own_ns, &own_rss);
	(void)keeper__usage(c->keeper, &keeper_ns, &keeper_rss); /* it has ended: the loop is about to notice */
	tell__event(&c->tell, (struct event){ .kind = EV_SELF, .addr = keeper_rss + own_rss,
					      .size = keeper_ns + recorder__cpu_ns(&c->stream->recorder) + own_ns });
}

void counted__usage(struct counted *c)
{
	usage__push_cpus(c->usage);
	counted__oom_kills(c);
	counted__devices(c);
	counted__self(c);
}

/* What is used after the trace is not its. */
void counted__rest(struct counted *c)
{
	bool has_ended = c->stream->detach_ns != UINT64_MAX;

	counted__losses(c);
	counted__full(c);
	counted__cut(c, has_ended);
	if (!has_ended)
		counted__usage(c);
	tell__event(&c->tell, (struct event){ .kind = EV_TICK });
}
