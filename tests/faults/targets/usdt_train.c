// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * usdt_train: a training loop in C that speaks through usdt.h: rounds of 200 steps, each from the same seed, a line a round:
 *
 *   ready PID
 *   round NUMBER LOSSES WEIGHTS        (FNV-1a of the bytes)
 *
 * until a line comes on stdin. Its inner loops are leaf functions: what they keep lies in the red zone, below the stack
 * pointer, and probes of every kind fire between the writing and the reading of it. Fields of numbers are big enough that the
 * compiler cannot keep them in registers.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memtrace/usdt.h"

enum { STEPS = 200, WIDTH = 32, ROWS = 64, LANES = 12 };

#define LEAF __attribute__((noinline))

static double weights[WIDTH], moment[WIDTH], grad[WIDTH], input[ROWS][WIDTH], wanted[ROWS];

static double draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(int64_t)(*seed >> 11) / (double)(1ll << 52) - 1.0;
}

static uint64_t hash(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

/* Sums in lanes; an operator and an allocation are told amid them. */
static LEAF double dot(const double *a, const double *b)
{
	volatile double lane[LANES] = { 0 };

	for (int i = 0; i < WIDTH; i++)
		lane[i % LANES] += a[i] * b[i];
	MEMTRACE_ALLOC(a, WIDTH * sizeof(double), MEMTRACE_CPU);
	for (int i = 1; i < LANES; i++)
		lane[0] += lane[i];
	MEMTRACE_FREE(a, MEMTRACE_CPU);
	return lane[0] + lane[1] * 0.0;
}

static LEAF void add_scaled(double *to, const double *from, double by)
{
	volatile double kept[LANES];

	for (int begin = 0; begin + 8 <= WIDTH; begin += 8) {
		for (int i = 0; i < 8; i++)
			kept[i] = to[begin + i];
		MEMTRACE_OP_BEGIN("add_scaled");
		MEMTRACE_TAG(to, "weights", MEMTRACE_CPU);
		MEMTRACE_OP_END();
		for (int i = 0; i < 8; i++)
			to[begin + i] = kept[i] + by * from[begin + i];
	}
}

static LEAF double update(unsigned step)
{
	volatile double sum[LANES] = { 0 };

	MEMTRACE_REGION_BEGIN("update");
	for (int i = 0; i < WIDTH; i++) {
		moment[i] = 0.9 * moment[i] + grad[i];
		sum[i % LANES] += moment[i] * moment[i];
		weights[i] -= 0.001 * moment[i];
		grad[i] = 0;
	}
	MEMTRACE_STEP(step);
	MEMTRACE_REGION_END();
	for (int i = 1; i < LANES; i++)
		sum[0] += sum[i];
	return sum[0];
}

static double train_step(unsigned step)
{
	double loss = 0, e;

	for (int row = 0; row < ROWS; row++) {
		e = dot(weights, input[row]) - wanted[row];
		loss += e * e;
		add_scaled(grad, input[row], 2 * e / ROWS);
	}
	return loss + update(step);
}

static void fresh(void)
{
	uint64_t seed = 1;

	memset(moment, 0, sizeof(moment));
	memset(grad, 0, sizeof(grad));
	for (int i = 0; i < WIDTH; i++)
		weights[i] = draw(&seed);
	for (int row = 0; row < ROWS; row++) {
		for (int i = 0; i < WIDTH; i++)
			input[row][i] = draw(&seed);
		wanted[row] = draw(&seed);
	}
}

int main(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	uint64_t losses, end;
	double loss;

	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	printf("ready %d\n", (int)getpid());
	for (unsigned number = 1; poll(&in, 1, 0) == 0; number++) {
		losses = end = 0xcbf29ce484222325ull;
		fresh();
		for (unsigned step = 0; step < STEPS; step++) {
			loss = train_step(number * STEPS + step);
			losses = hash(losses, &loss, sizeof(loss));
		}
		end = hash(hash(end, weights, sizeof(weights)), moment, sizeof(moment));
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
		printf("round %u %016llx %016llx\n", number, (unsigned long long)losses, (unsigned long long)end);
	}
	return 0;
}
