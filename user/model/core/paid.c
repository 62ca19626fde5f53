/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/paid.h"

static struct paid_bucket paid__sum(const struct paid *p)
{
	struct paid_bucket sum = { 0 };

	for (size_t i = 0; i < PAID_BUCKETS; i++) {
		sum.steps += p->watched[i].steps;
		sum.ns += p->watched[i].ns;
	}
	return sum;
}

double paid__step_ns(const struct paid *p)
{
	struct paid_bucket sum = paid__sum(p);

	return sum.steps ? (double)sum.ns / (double)sum.steps : 0;
}

/* A step far longer than others is left out, unless PAID_ODD in a row are. */
static bool paid__is_odd(struct paid *p, uint64_t took_ns)
{
	double step_ns = paid__step_ns(p);

	if (step_ns <= 0 || (double)took_ns <= PAID_LONG_TIMES * step_ns + (double)PAID_LONG_NS) {
		p->odd = 0;
		return false;
	}
	p->odds++;
	if (++p->odd <= PAID_ODD)
		return true;
	for (size_t i = 0; i < PAID_BUCKETS; i++)
		p->watched[i] = (struct paid_bucket){ 0 };
	return false;
}

/*
 * The share of the job's time that probes took between two readings. A job that waits for a CPU waits for its probes as well:
 * so it is the share of its CPU time.
 */
static double paid__share(const struct paid_read *from, const struct paid_read *to, double times)
{
	double probe_ns, own_ns;

	if (to->probe_ns <= from->probe_ns || to->cpu_ns <= from->cpu_ns || to->ts_ns <= from->ts_ns)
		return 0;
	probe_ns = (double)(to->probe_ns - from->probe_ns);
	own_ns = (double)(to->cpu_ns - from->cpu_ns) - probe_ns;
	if (own_ns <= 0)
		return 1;
	return times * probe_ns / (own_ns + times * probe_ns);
}

/* The first reading behind the stretch, without what is hit between stretches, too, where allocations are: marks have that. */
static struct paid_read paid__read_behind(const struct paid *p)
{
	struct paid_read to = !p->is_open && p->rest.ts_ns ? p->rest : p->read;
	double blocks_ns, all_ns;

	if (to.ts_ns <= p->before.ts_ns || to.probe_ns <= p->before.probe_ns)
		return p->before;
	blocks_ns = p->blocks * (double)(to.ts_ns - p->before.ts_ns);
	all_ns = (double)(to.probe_ns - p->before.probe_ns);
	to.probe_ns -= (uint64_t)(blocks_ns < all_ns ? blocks_ns : all_ns);
	return to;
}

double paid__probes(const struct paid *p)
{
	return (double)(paid__read_behind(p).probe_ns - p->before.probe_ns);
}

/* What its probes took of the job's time, by calibration and what jobs lose beyond that. */
static double paid__calibrated(const struct paid *p)
{
	struct paid_read to = paid__read_behind(p);

	return p->stretches ? paid__share(&p->before, &to, PAID_CALIBRATED) * (double)(to.ts_ns - p->before.ts_ns) : 0;
}

double paid__last(const struct paid *p)
{
	double step_ns = p->beside_ns > 0 ? p->beside_ns : paid__step_ns(p);

	return step_ns > 0 && p->steps ? (double)p->ns - (double)p->steps * step_ns : paid__calibrated(p);
}

double paid__of_blocks(const struct paid *p, double hit_ns)
{
	double step_ns = p->beside_ns > 0 ? p->beside_ns : paid__step_ns(p), cpu_ns, ns;

	if (step_ns <= 0 || !p->traced_steps || p->cpus <= 0)
		return 0;
	cpu_ns = step_ns * p->cpus;
	ns = PAID_BLOCKS * hit_ns * (double)p->traced_blocks / (double)p->traced_steps;
	return ns > 0 ? ns / (cpu_ns + ns) : 0;
}

bool paid__is_measured(const struct paid *p)
{
	return !p->is_open && p->steps && p->after >= PAID_AFTER;
}

/*
 * The time that marks took since the stretch began. Marks are hit inside and outside of a stretch, so their cost cancels out in
 * the comparison. The stretch's own cost was no time of the job's.
 */
static double paid__marks(const struct paid *p, uint64_t now_ns)
{
	double own_ns = p->since_ns && now_ns > p->since_ns ? (double)(now_ns - p->since_ns) : 0;
	double last_ns = p->stretches ? paid__last(p) : 0;

	own_ns -= last_ns > 0 ? last_ns : 0;
	return own_ns > 0 ? p->watch * own_ns : 0;
}

double paid__marks_beside(const struct paid *p, uint64_t now_ns)
{
	uint64_t until_ns = p->still_ns ? p->still_ns : now_ns;

	return until_ns > p->begin_ns && p->watch > p->left ? (p->watch - p->left) * (double)(until_ns - p->begin_ns) : 0;
}

static double paid__left(const struct paid *p, uint64_t now_ns)
{
	return p->still_ns && now_ns > p->still_ns ? p->left * (double)(now_ns - p->still_ns) : 0;
}

void paid__level(struct paid *p, bool sees_blocks)
{
	if (p->sees_blocks != sees_blocks)
		p->watch = p->blocks = 0; /* the value for the other level is of no use */
	p->sees_blocks = sees_blocks;
}

void paid__still(struct paid *p, uint64_t now_ns)
{
	if (p->is_open || p->still_ns)
		return;
	p->marks_ns += paid__marks(p, now_ns);
	p->since_ns = 0;
	p->still_ns = now_ns;
}

/* Over all windows noise evens out: no less than their probes took by calibration, which is usually too low. */
double paid__all(const struct paid *p, uint64_t now_ns)
{
	double lost_ns = p->lost_ns + paid__last(p);
	double least_ns = p->least_ns + paid__calibrated(p) / PAID_CALIBRATED;

	return (lost_ns > least_ns ? lost_ns : least_ns) + p->marks_ns + paid__marks(p, now_ns) + paid__left(p, now_ns);
}

void paid__change(struct paid *p, bool is_rest, uint64_t now_ns)
{
	if (p->is_open != is_rest)
		return;
	if (is_rest) {
		p->is_open = false;
		p->end_ns = now_ns;
		p->after = 0;
		p->rest.ts_ns = p->still.ts_ns = 0;
		return;
	}
	if (p->stretches++) {
		p->marks_ns += paid__marks(p, now_ns) + paid__left(p, now_ns);
		p->lost_ns += paid__last(p);
		p->least_ns += paid__calibrated(p) / PAID_CALIBRATED;
	}
	p->is_open = true;
	p->begin_ns = p->since_ns = now_ns;
	p->still_ns = 0;
	p->is_settled = false;
	p->beside_ns = 0;
	p->end_ns = 0;
	p->steps = p->ns = p->traced_steps = p->traced_ns = p->traced_blocks = 0;
	p->before = p->read;
}

static void paid__watch(struct paid *p, uint64_t took_ns)
{
	struct paid_bucket *b = &p->watched[p->at];

	b->steps++;
	b->ns += took_ns;
	if (b->ns < PAID_BUCKET_NS)
		return;
	if (++p->after == PAID_BUCKETS / 2 && !p->is_open)
		p->beside_ns = paid__step_ns(p); /* as many before as after */
	p->at = (p->at + 1) % PAID_BUCKETS;
	p->watched[p->at] = (struct paid_bucket){ 0 };
}

void paid__step(struct paid *p, enum paid_step what, uint64_t took_ns, uint64_t blocks, uint64_t now_ns)
{
	if (paid__is_odd(p, took_ns) || (!p->is_open && p->still_ns)) /* the job's own marks report steps even then */
		return;
	if (what == PAID_WATCHED && !p->is_open && p->end_ns && now_ns - took_ns < p->end_ns + PAID_SETTLE_NS)
		what = PAID_BESIDE;
	if (what == PAID_WATCHED) {
		paid__watch(p, took_ns);
		if (p->is_open && !p->steps) /* nothing is set yet */
			p->begin_ns = now_ns;
		return;
	}
	p->steps++;
	p->ns += took_ns;
	if (what == PAID_TRACED) {
		p->traced_steps++;
		p->traced_ns += took_ns;
		p->traced_blocks += blocks;
	}
}

static void paid__read_rest(struct paid *p, const struct paid_read *now)
{
	p->watch = paid__share(&p->rest, now, p->sees_blocks ? PAID_BLOCKS : PAID_MARKS);
	if (p->sees_blocks && now->ts_ns > p->rest.ts_ns && now->probe_ns > p->rest.probe_ns)
		p->blocks = (double)(now->probe_ns - p->rest.probe_ns) / (double)(now->ts_ns - p->rest.ts_ns);
}

/* The rare probes that stay when marks have gone. */
static void paid__read_still(struct paid *p, const struct paid_read *now)
{
	if (now->ts_ns <= p->still_ns)
		return;
	if (!p->still.ts_ns)
		p->still = *now;
	else
		p->left = paid__share(&p->still, now, PAID_MARKS);
}

void paid__read(struct paid *p, const struct paid_read *now)
{
	p->read = *now;
	if (!p->before.ts_ns)
		p->before.ts_ns = p->begin_ns < now->ts_ns ? p->begin_ns : now->ts_ns; /* nothing was taken until then */
	if (p->is_open || now->ts_ns <= p->end_ns)
		return;
	if (!p->rest.ts_ns)
		p->rest = *now;
	else if (!p->still_ns)
		paid__read_rest(p, now);
	if (now->ts_ns > p->rest.ts_ns && now->cpu_ns > p->rest.cpu_ns)
		p->cpus = (double)(now->cpu_ns - p->rest.cpu_ns) / (double)(now->ts_ns - p->rest.ts_ns);
	if (p->still_ns) {
		paid__read_still(p, now);
		return;
	}
	p->is_settled = p->rest.ts_ns < now->ts_ns && p->after >= PAID_BUCKETS / 2;
}
