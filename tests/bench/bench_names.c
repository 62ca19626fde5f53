/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * bench_names PID [LOOKS [PAUSE_MS [all | short | fake [kept]]]]: reads the names of a running job's tensors again and again.
 * One JSON object a line and look: how long it took, and what was told. `all` searches for modules in each look, else only
 * the first does; `short` leaves the names out; `fake` is for tests/e2e/jobs/names_fake.py; `kept` reads through a keeper, as
 * memtrace does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"
#include "keeper/keeper.h"
#include "plan/plan.h"
#include "python/reader.h"
#include "python/runtime.h"
#include "target/target.h"

static const char *const kinds[] = { "", "parameter", "buffer", "gradient", "state" };

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void print_look(const struct py_reader *r, const struct py_look *l, double cpu, int is_short)
{
	printf("{\"took_ms\":%.3f,\"cpu_ms\":%.3f,\"search_ms\":%.3f,\"search_cpu_ms\":%.3f,"
	       "\"read_mb\":%.1f,"
	       "\"objects\":%llu,\"modules\":%u,\"roots\":%u,"
	       "\"optimizers\":%u,\"torn\":%u,\"circles\":%u,\"held_back\":%u,\"changed\":%u,\"same\":%d,\"cut\":%d,"
	       "\"told\":%zu",
	       (double)l->took_ns / 1e6, cpu, (double)l->search_ns / 1e6, (double)l->search_cpu_ns / 1e6,
	       (double)l->bytes_read / 1e6,
	       (unsigned long long)l->objects, l->modules, l->roots, l->optimizers, l->torn, l->circles, l->held_back,
	       l->changed, l->is_same, l->is_cut, l->reported_cnt);
	printf(",\"names\":[");
	for (size_t i = 0; i < l->reported_cnt && !is_short; i++) {
		const struct py_reported *t = &l->reported[i];
		char type[PY_TYPE_TEXT_MAX];

		py_storage__type_text(&t->name->at, type);
		printf("%s[%llu,%llu,\"%s\",\"%s\",\"%s\",\"%s\",\"%s\"]", i ? "," : "",
		       (unsigned long long)t->name->at.data, (unsigned long long)t->name->at.bytes, kinds[t->name->kind],
		       t->root, py_reader__text(r, t->name->path), py_reader__text(r, t->name->key), type);
	}
	printf("]}\n");
	fflush(stdout);
}

static int fail(const struct err *err)
{
	fprintf(stderr, "bench_names: %s\n", err->msg);
	return 1;
}

/* Where torch 2.13 keeps things, with vtables that nobody has. */
static const struct mt_flow_layout fake_layout = {
	.impl_storage = 16, .impl_autograd_meta = 24, .meta_grad = 40, .storage_data = 16, .storage_dev = 40,
	.storage_size = 48 };
static const struct flow_vtable fake_vtables[] = {
	{ 0x100001000, MT_CLASS_PLAIN }, { 0x100002000, MT_CLASS_STORAGE }, { 0x100003000, MT_CLASS_META } };

static int make_fake(struct py_reader **ret, struct target *t, struct err *err)
{
	struct py_mem mem = py_mem_of(t);
	struct py_runtime rt;
	int r = py_runtime__find(&rt, t, &mem, err);

	if (r)
		return r;
	return py_reader__new(ret, &(struct py_reader_opts){ .target = t, .minor = rt.at->minor,
							     .interp_head = rt.addr + rt.at->interp_head,
						.interp_next = rt.at->interp_next, .layout = fake_layout,
							     .vtables = fake_vtables, .vtables_cnt = 3 }, err);
}

static int make_reader(struct py_reader **ret, struct target *t, struct err *err)
{
	struct py_mem mem = py_mem_of(t);
	struct py_reader_opts opts;
	struct py_runtime rt;
	struct plan *plan;
	int r = py_runtime__find(&rt, t, &mem, err);

	r = r ? r : plan__tensors(&plan, t, err);
	if (r)
		return r;
	opts = (struct py_reader_opts){ .target = t, .minor = rt.at->minor, .interp_head = rt.addr + rt.at->interp_head,
					.interp_next = rt.at->interp_next, .layout = plan->flow_layout.at,
					.vtables = plan->flow_vtables, .vtables_cnt = plan->flow_vtables_cnt };
	r = py_reader__new(ret, &opts, err);
	plan__free(plan);
	return r;
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	int looks = argc > 2 ? atoi(argv[2]) : 1, pause_ms = argc > 3 ? atoi(argv[3]) : 0;
	int is_all = argc > 4 && !strcmp(argv[4], "all"), is_short = argc > 4 && !strcmp(argv[4], "short");
	struct py_reader *r = NULL;
	struct err err = { 0 };
	struct keeper *keeper = NULL;
	struct target *t;

	if (argc > 5 && !strcmp(argv[5], "kept") &&
	    keeper__start(&keeper, &(struct keeper_opts){ .as = &(struct asker){ .uid = getuid() },
							  .wards = { .pids = &pid, .pids_cnt = 1 } }, &err) < 0)
		return fail(&err);
	if (target__open(&t, pid, &err) < 0 ||
	    (argc > 4 && !strcmp(argv[4], "fake") ? make_fake(&r, t, &err) : make_reader(&r, t, &err)) < 0)
		return fail(&err);
	for (int i = 0; i < looks; i++) {
		double cpu = cpu_ms();
		struct py_look look;
		int e = py_reader__look(r, is_all ? PY_LOOK_ALL : PY_LOOK_KNOWN, &look);

		if (e)
			printf("{\"error\":\"%s\"}\n", strerror(-e));
		else
			print_look(r, &look, cpu_ms() - cpu, is_short);
		usleep((useconds_t)pause_ms * 1000);
	}
	py_reader__free(r);
	target__free(t);
	keeper__free(keeper);
	return 0;
}
