/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * truth: what the truth targets share: programs that know exactly what they did with memory.
 *
 * Protocol on stdin and stdout, a line each:
 *   target: ready PID      what comes now was before the attach
 *   test:   go
 *   target: {…}            JSON: what it did between go and now; it is idle from here on
 *   test:   end            the target exits with 0
 *
 * Nothing here calls malloc or stdio streams, so the host allocator can be traced too. Counts are
 * plain: the caller holds its own lock. Good for C and C++.
 */
#ifndef MT_TARGETS_TRUTH_H
#define MT_TARGETS_TRUTH_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRUTH_FN static __attribute__((unused))
#define TRUTH_NAME_MAX 128 /* of memtrace: longer names are cut to 127 bytes */

/* --- lines --------------------------------------------------------------------------------------- */

static char truth_text[1 << 18];
static size_t truth_len;

TRUTH_FN __attribute__((format(printf, 1, 2))) void truth_say(const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(truth_text + truth_len, sizeof(truth_text) - truth_len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(truth_text) - truth_len)
		abort();
	truth_len += (size_t)n;
}

TRUTH_FN void truth_flush(void)
{
	size_t done = 0;

	while (done < truth_len) {
		ssize_t n = write(1, truth_text + done, truth_len - done);

		if (n <= 0)
			_exit(3);
		done += (size_t)n;
	}
	truth_len = 0;
}

/* Waits for a line; the end of stdin ends the program. */
TRUTH_FN void truth_wait(void)
{
	char c = 0;

	while (c != '\n')
		if (read(0, &c, 1) != 1)
			_exit(4);
}

TRUTH_FN void truth_ready(void)
{
	truth_say("ready %d\n", (int)getpid());
	truth_flush();
	truth_wait();
}

/*
 * Until *counter is not 0, at most 20 s: a probe's semaphore tells that a tracer has come. The kernel
 * counts just before it sets the probe, hence the pause at the end.
 */
TRUTH_FN void truth_wait_for(const volatile unsigned short *counter, const char *what)
{
	struct timespec pause = { 0, 1000000 };

	for (int i = 0; i < 20000 && !*counter; i++)
		nanosleep(&pause, NULL);
	if (*counter) {
		pause.tv_nsec = 50000000;
		nanosleep(&pause, NULL);
		return;
	}
	truth_say("{\"failed\":\"no tracer came for %s\"}\n", what);
	truth_flush();
	_exit(5);
}

/* --- chance, from a seed ------------------------------------------------------------------------ */

TRUTH_FN uint64_t truth_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* --- counts -------------------------------------------------------------------------------------- */

struct truth_op {
	const char *name;
	uint64_t count; /* times entered */
	uint64_t alloc_count, alloc_bytes;
};

struct truth_dev {
	const char *name;
	uint64_t allocs, frees, alloc_bytes, free_bytes, live, peak, preexisting_frees;
};

TRUTH_FN void truth_alloc(struct truth_dev *d, struct truth_op *op, struct truth_op *region, uint64_t size)
{
	d->allocs++;
	d->alloc_bytes += size;
	d->live += size;
	if (d->live > d->peak)
		d->peak = d->live;
	op->alloc_count++;
	op->alloc_bytes += size;
	if (region) {
		region->alloc_count++;
		region->alloc_bytes += size;
	}
}

TRUTH_FN void truth_free(struct truth_dev *d, uint64_t size)
{
	d->frees++;
	d->free_bytes += size;
	d->live -= size;
}

TRUTH_FN void truth_say_name(const char *name)
{
	truth_say("\"");
	for (size_t i = 0; name[i] && i < TRUTH_NAME_MAX - 1; i++)
		truth_say(name[i] == '"' || name[i] == '\\' ? "\\%c" : "%c", name[i]);
	truth_say("\"");
}

TRUTH_FN void truth_say_ops(const char *key, const struct truth_op *ops, size_t cnt)
{
	const char *comma = "";

	truth_say(",\"%s\":{", key);
	for (size_t i = 0; i < cnt; i++) {
		if (!ops[i].count && !ops[i].alloc_count)
			continue;
		truth_say("%s", comma);
		truth_say_name(ops[i].name);
		truth_say(":{\"count\":%llu,\"alloc_count\":%llu,\"alloc_bytes\":%llu}",
			  (unsigned long long)ops[i].count, (unsigned long long)ops[i].alloc_count,
			  (unsigned long long)ops[i].alloc_bytes);
		comma = ",";
	}
	truth_say("}");
}

TRUTH_FN void truth_say_devs(const struct truth_dev *devs, size_t cnt)
{
	truth_say("{\"pid\":%d,\"devices\":{", (int)getpid());
	for (size_t i = 0; i < cnt; i++)
		truth_say("%s\"%s\":{\"allocs\":%llu,\"frees\":%llu,\"alloc_bytes\":%llu,\"free_bytes\":%llu,"
			  "\"live\":%llu,\"peak\":%llu,\"preexisting_frees\":%llu}",
			  i ? "," : "", devs[i].name, (unsigned long long)devs[i].allocs,
			  (unsigned long long)devs[i].frees, (unsigned long long)devs[i].alloc_bytes,
			  (unsigned long long)devs[i].free_bytes, (unsigned long long)devs[i].live,
			  (unsigned long long)devs[i].peak, (unsigned long long)devs[i].preexisting_frees);
	truth_say("}");
}

/* Ends the JSON line, and stays until the test says so. */
TRUTH_FN void truth_end(void)
{
	truth_say("}\n");
	truth_flush();
	truth_wait();
}

#endif
