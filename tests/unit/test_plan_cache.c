/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Plans of several processes with the same files: what is kept, what must not be, and plans made beside the loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/err.h"
#include "live/planner.h"
#include "plan/cache.h"
#include "plan/plan.h"
#include "target/target.h"
#include "unit/fixture.h"

/* Operators with a guard each and a vtable: what is at another address in every process. */
static const char torch[] =
	"const char schemas[] = \"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\";\n"
	"int guard;\n"
	"void add(void) __asm__(\"_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE\");\n"
	"void add(void) { __asm__ volatile(\"movzbl guard_byte(%rip), %eax\\n test %al, %al\\n jne 1f\\n"
	" lea guard_byte(%rip), %rdi\\n call __cxa_guard_acquire@PLT\\n 1:\\n\"); }\n"
	"__asm__(\".bss\\n guard_byte: .skip 8\\n .text\\n\");\n"
	"int __cxa_guard_acquire(void *g) { (void)g; return 0; }\n"
	"void free_block(void) __asm__(\"_ZN3c1029reportMemoryUsageToProfilerEPvlmmNS_6DeviceE\");\n"
	"void free_block(void) { __asm__ volatile(\"nop\"); }\n"
	"const long vt[4] __asm__(\"_ZTVN5torch8autograd9generated14AddmmBackward0E\") = { 1, 2, 3, 4 };\n";

#define SOURCES (SRC_OPS | SRC_REGIONS | SRC_USDT | SRC_SEGMENTS)

static char program[256], library[256];
static unsigned more_sources;

static void build(void)
{
	char flags[400];

	snprintf(library, sizeof(library), "%s",
		 fixture_build("libtorch_cpu.so", "-shared -fPIC -Wl,-soname,libtorch_cpu.so", torch));
	snprintf(flags, sizeof(flags), "-pie -fPIE -L%s -Wl,--no-as-needed -ltorch_cpu -Wl,-rpath,%s", fixture_dir,
		 fixture_dir);
	snprintf(program, sizeof(program), "%s", fixture_build("job", flags, FIXTURE_WAITS("")));
}

/* Files are kept once they have been left alone for two seconds. */
static void settle(const char *path)
{
	struct timespec old[2] = { { .tv_sec = time(NULL) - 100 }, { .tv_sec = time(NULL) - 100 } };

	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

struct made {
	struct target *t;
	struct plan *plan;
	struct names *names;
	pid_t pid;
};

static struct made make(struct plan_cache *cache)
{
	char *const env[] = { NULL };
	struct plan_opts opts = { .sources = SOURCES | more_sources, .cache = cache };
	struct made m = { .names = names__new(), .pid = fixture_start(program, env) };
	struct err err = { 0 };

	assert_int_equal(target__open(&m.t, m.pid, &err), 0);
	if (plan__build(&m.plan, m.t, &opts, m.names, &err))
		fail_msg("%s", err.msg);
	return m;
}

static void drop(struct made *m)
{
	plan__free(m->plan);
	target__free(m->t);
	names__free(m->names);
	fixture_stop(m->pid);
}

static uint64_t load_of(const struct target *t)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);

	for (size_t i = 0; i < cnt; i++)
		if (strstr(libs[i].base, "torch_cpu"))
			return libs[i].load_start;
	fail();
	return 0;
}

/* The same but for where the library lies. */
static void is_same_elsewhere(const struct made *a, const struct made *b)
{
	uint64_t apart = load_of(b->t) - load_of(a->t);
	unsigned guards = 0;

	assert_int_equal(a->plan->sites_cnt, b->plan->sites_cnt);
	assert_true(a->plan->sites_cnt > 0);
	for (size_t i = 0; i < a->plan->sites_cnt; i++) {
		const struct site *x = &a->plan->sites[i], *y = &b->plan->sites[i];

		assert_string_equal(names__get(a->names, x->sym), names__get(b->names, y->sym));
		assert_true(x->offset == y->offset && x->prog == y->prog && x->insn_class == y->insn_class);
		assert_string_equal(a->plan->libs[x->lib].path, b->plan->libs[y->lib].path);
		if (x->prog == MT_PROG_OP)
			assert_string_equal(names__get(a->names, (name_id){ (uint32_t)x->cookie }),
					    names__get(b->names, (name_id){ (uint32_t)y->cookie }));
		if (x->guard) {
			guards++;
			assert_true(y->guard - x->guard == apart);
		}
	}
	assert_true(guards > 0);
	assert_int_equal(a->plan->vtables_cnt, 1);
	assert_int_equal(b->plan->vtables_cnt, 1);
	assert_true(b->plan->vtables[0].addr - a->plan->vtables[0].addr == apart);
	assert_string_equal(names__get(b->names, b->plan->vtables[0].name), "AddmmBackward0");
	assert_int_equal(a->plan->notes_cnt, b->plan->notes_cnt);
}

static struct plan_file *kept(struct plan_cache *c, const char *path)
{
	struct elf_stamp stamp;
	int fd = open(path, O_RDONLY);

	assert_int_equal(elf_stamp__of(fd, &stamp), 0);
	close(fd);
	return plan_cache__find(c, &stamp, strrchr(path, '/') + 1, 0);
}

/* ctime cannot be set back, so the test waits until the library is left alone long enough. */
static void the_second_process_costs_little(void **state)
{
	struct plan_cache *cache = plan_cache__new();
	struct timespec wait = { 2, 200000000 };
	struct made a, b, alone;

	(void)state;
	build();
	settle(library);
	nanosleep(&wait, NULL);
	a = make(cache);
	assert_non_null(kept(cache, library));
	assert_non_null(kept(cache, library)->finds);
	assert_null(kept(cache, library)->finds->next);
	b = make(cache);
	assert_null(kept(cache, library)->finds->next); /* found, not made again */
	alone = make(NULL);
	is_same_elsewhere(&a, &b);
	is_same_elsewhere(&a, &alone);
	drop(&a);
	drop(&b);
	drop(&alone);
	plan_cache__free(cache);
}

/* A file that was just written may change again without its times telling: what was found in it is for one plan. */
static void a_young_file_is_not_kept(void **state)
{
	struct plan_cache *cache = plan_cache__new();
	struct made a;

	(void)state;
	build();
	a = make(cache);
	assert_non_null(kept(cache, library));
	plan_cache__begin(cache); /* the next plan */
	assert_null(kept(cache, library));
	drop(&a);
	plan_cache__free(cache);
}

static void a_changed_file_is_another_one(void **state)
{
	struct plan_cache *cache = plan_cache__new();
	struct elf_stamp stamp = { .dev = 1, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5 }, other;

	(void)state;
	assert_non_null(plan_cache__add(cache, &stamp, "lib.so", 0));
	assert_non_null(plan_cache__find(cache, &stamp, "lib.so", 0));
	assert_null(plan_cache__find(cache, &stamp, "lib.so", 1));
	assert_null(plan_cache__find(cache, &stamp, "libtorch.so", 0));
	for (int i = 0; i < 5; i++) {
		other = stamp;
		((uint64_t *)&other)[i]++;
		assert_null(plan_cache__find(cache, &other, "lib.so", 0));
	}
	plan_cache__free(cache);
}

static struct find *big_find(size_t bytes)
{
	struct find *f = calloc(1, sizeof(*f));

	f->plan = calloc(1, sizeof(*f->plan));
	f->bytes = bytes;
	return f;
}

/* Any user may have any number of files looked at (-a). */
static void has_bounds(void **state)
{
	struct plan_cache *cache = plan_cache__new();
	struct elf_stamp stamp = { .dev = 1, .mtime_ns = 1, .ctime_ns = 1 };
	struct plan_file *first = plan_cache__add(cache, &stamp, "first.so", 0), *f;

	(void)state;
	plan_file__keep(cache, first, big_find(CACHE_BYTES_MAX / 4));
	for (unsigned i = 0; i < 10; i++) {
		struct find_key key = { 0 };

		stamp.ino = 1 + i;
		f = plan_cache__add(cache, &stamp, "big.so", 0);
		plan_file__keep(cache, f, big_find(CACHE_BYTES_MAX / 4));
		assert_non_null(plan_file__find(cache, f, &key)); /* the newest stays */
	}
	assert_null(first->finds); /* the oldest went */
	for (unsigned i = 0; i < CACHE_FILES_MAX + 100; i++) {
		stamp.ino = 1000 + i;
		assert_non_null(plan_cache__add(cache, &stamp, "many.so", 0));
	}
	plan_cache__begin(cache);
	stamp.ino = 1000;
	assert_null(plan_cache__find(cache, &stamp, "many.so", 0));
	stamp.ino = 1000 + CACHE_FILES_MAX;
	assert_non_null(plan_cache__find(cache, &stamp, "many.so", 0));
	plan_cache__free(cache);
}

/* Between planning and setting: no probe goes into a file that is not as it was. */
static void sites_in_changed_files_are_taken_away(void **state)
{
	struct made a;
	FILE *f;

	(void)state;
	build();
	a = make(NULL);
	assert_int_equal(plan__drop_changed(a.plan), 0);
	assert_true(a.plan->sites_cnt > 0 && a.plan->guards_cnt > 0);
	f = fopen(library, "ab");
	fputs("more", f);
	fclose(f);
	assert_int_equal(plan__drop_changed(a.plan), 1);
	assert_int_equal(a.plan->files_left_out, 1);
	assert_int_equal(a.plan->guards_cnt, 0);
	for (size_t i = 0; i < a.plan->sites_cnt; i++)
		assert_null(strstr(a.plan->libs[a.plan->sites[i].lib].path, "torch"));
	assert_non_null(strstr(a.plan->notes[a.plan->notes_cnt - 1], "changed after"));
	drop(&a);
}

/* A library that cannot be read to its end is left out as a whole, named and counted; the others are planned. */
static void a_hostile_library_is_left_out(void **state)
{
	struct plan_opts opts = { .sources = SOURCES };
	struct err err = { 0 };
	struct made a;
	char script[2000];

	(void)state;
	build();
	/* the dynamic linker needs no sections, so the job runs with these */
	snprintf(script, sizeof(script),
		 "python3 - <<'E'\n"
		 "import struct\n"
		 "p = '%s'\n"
		 "d = bytearray(open(p, 'rb').read())\n"
		 "off, = struct.unpack_from('<Q', d, 0x28); n, = struct.unpack_from('<H', d, 0x3c)\n"
		 "for i in range(1, n):\n"
		 "    if struct.unpack_from('<I', d, off + i * 64 + 4)[0] == 2:\n"
		 "        struct.pack_into('<QQ', d, off + i * 64 + 24, len(d), 1 << 32)\n"
		 "f = open(p, 'wb'); f.write(d); f.truncate(len(d) + (1 << 32))\n"
		 "E",
		 library);
	assert_int_equal(system(script), 0);
	more_sources = SRC_HOST; /* else there is nothing */
	a = make(NULL);
	more_sources = 0;
	assert_int_equal(a.plan->files_left_out, 1);
	assert_int_equal(a.plan->vtables_cnt, 0);
	assert_true(a.plan->sites_cnt > 0);
	assert_non_null(strstr(a.plan->notes[0], "libtorch_cpu.so is left out: "));
	plan__free(a.plan);
	a.plan = NULL;
	assert_int_equal(plan__build(&a.plan, a.t, &opts, a.names, &err), -ENOENT);
	assert_non_null(strstr(err.hint, "libtorch_cpu.so is left out: "));
	drop(&a);
}

/* --- beside the loop ----------------------------------------------------------------------------------- */

static struct planned wait_for(struct planner *p, struct names *names)
{
	struct pollfd fd = { .fd = planner__fd(p), .events = POLLIN };
	struct planned got;

	for (;;) {
		assert_int_equal(poll(&fd, 1, 20000), 1);
		if (planner__next(p, names, &got))
			return got;
	}
}

static void plans_are_made_beside_the_loop(void **state)
{
	char *const env[] = { NULL };
	struct plan_opts opts = { .sources = SOURCES };
	struct names *names = names__new();
	struct made direct;
	struct planner *p;
	struct target *t;
	uint64_t tickets[5];
	struct planned got;

	(void)state;
	build();
	direct = make(NULL);
	assert_int_equal(target__open_bare(&t, direct.pid, NULL, NULL), 0); /* it is looked at there, too */
	/* ids of the two tables differ */
	names__add(names, "something else");
	assert_int_equal(planner__new(&p, NULL), 0);
	for (int i = 0; i < 5; i++)
		tickets[i] = planner__ask(p, t, &opts);
	assert_int_equal(planner__waiting(p), 5);
	planner__forget(p, tickets[3]); /* not begun, most likely; if it was, its plan is thrown away */
	planner__forget(p, 0);
	for (int i = 0; i < 5; i++) {
		struct made beside = direct;

		if (i == 3)
			continue;
		got = wait_for(p, names);
		assert_int_equal(got.r, 0);
		assert_true(got.ticket == tickets[i]);
		beside.plan = got.plan;
		beside.names = names;
		is_same_elsewhere(&direct, &beside);
		plan__free(got.plan);
	}
	assert_int_equal(planner__waiting(p), 0);
	assert_int_equal(planner__next(p, names, &got), 0);
	/* nothing is new */
	opts.only_new_libs = 1;
	(void)planner__ask(p, t, &opts);
	got = wait_for(p, names);
	assert_true(!got.r && !got.plan && got.look_ns && got.took_ns >= got.look_ns);
	/* one that is gone */
	fixture_stop(direct.pid);
	(void)planner__ask(p, t, &opts);
	got = wait_for(p, names);
	assert_int_equal(got.r, -ESRCH);
	assert_null(got.plan);
	assert_non_null(strstr(got.err.msg, "process"));
	/* ended in the middle */
	for (int i = 0; i < 20; i++)
		assert_true(planner__ask(p, t, &opts) > 0);
	planner__free(p);
	target__free(t);
	direct.pid = fixture_start(program, env);
	drop(&direct);
	names__free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_process_costs_little),
		cmocka_unit_test(a_young_file_is_not_kept),
		cmocka_unit_test(a_changed_file_is_another_one),
		cmocka_unit_test(has_bounds),
		cmocka_unit_test(sites_in_changed_files_are_taken_away),
		cmocka_unit_test(a_hostile_library_is_left_out),
		cmocka_unit_test(plans_are_made_beside_the_loop),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
