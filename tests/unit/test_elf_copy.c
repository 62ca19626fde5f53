/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* ELF files that change while they are read, and files that ask for too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "target/elf.h"
#include "target/elf_cfi.h"
#include "unit/fixture.h"

static const char source[] = "int first(int x) { return x + 1; }\n"
			     "int second(int x) { return first(x) + 1; }\n"
			     "static int inner(int x) { return second(x) * 3; }\n"
			     "int third(int x) { return inner(x) + inner(x + 1); }\n"
			     "const char text[70000] = \"far away\";\n"; /* pieces that were not read yet */

static struct elf *open_built(const char *name, const char *flags)
{
	struct err err = { 0 };
	struct elf *e = NULL;

	if (elf__open(&e, open(fixture_build(name, flags, source), O_RDONLY), name, &err) < 0)
		fail_msg("%s", err.msg);
	return e;
}

static struct elf *open_again(const char *name)
{
	struct elf *e = NULL;

	assert_int_equal(elf__open(&e, open(fixture_path(name), O_RDONLY), name, NULL), 0);
	return e;
}

static int count(void *ctx, const struct elf_sym *sym)
{
	(void)sym;
	++*(int *)ctx;
	return 0;
}

static int count_code(void *ctx, const struct elf_code *code)
{
	(void)code;
	++*(int *)ctx;
	return 0;
}

static int count_local(void *ctx, size_t name, const struct elf_sym *sym)
{
	(void)name;
	(void)sym;
	++*(int *)ctx;
	return 0;
}

static int count_note(void *ctx, const struct sdt_note *note)
{
	(void)note;
	++*(int *)ctx;
	return 0;
}

/* All questions, of a file that has failed: each says that there is nothing. */
static void has_nothing(const struct elf *e)
{
	static const char *const names[] = { "inner" };
	const uint8_t *bytes;
	struct cfi_row row;
	struct elf_sym sym;
	const char *why;
	uint64_t vaddr;
	size_t len;
	int cnt = 0;

	assert_true(elf__failed(e, &why) < 0);
	assert_true(strlen(why) > 10);
	assert_int_equal(elf__find_symbol(e, "second", &sym), -ENOENT);
	assert_int_equal(elf__find_local(e, "inner", &sym), -ENOENT);
	assert_int_equal(elf__each_symbol(e, count, &cnt), 0);
	assert_int_equal(elf__each_code(e, count_code, &cnt), 0);
	assert_int_equal(elf__find_locals(e, names, 1, count_local, &cnt), 0);
	assert_int_equal(elf__each_sdt_note(e, count_note, &cnt), 0);
	assert_int_equal(cnt, 0);
	assert_int_equal(elf__section(e, ".rodata", &bytes, &len, &vaddr), -ENOENT);
	assert_true(elf__cfi(e, 4096, &row) < 0);
	assert_null(elf__bytes(e, 0, 16, &len));
	assert_int_equal(len, 0);
	assert_null(elf__slot_symbol(e, 4096));
	assert_null(elf__name_at(e, 1));
	(void)elf__is_static(e);
}

/* A mapped file would end us here (SIGBUS). */
static void a_file_that_shrinks_is_an_error(void **state)
{
	static const off_t lens[] = { 0, 64, 4096, 70000 };

	(void)state;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct elf *e = open_built("shrinks.so", "-shared -fPIC");
		const uint8_t *bytes;
		uint64_t vaddr;
		size_t len;

		assert_int_equal(truncate(fixture_path("shrinks.so"), lens[i]), 0);
		assert_int_equal(elf__section(e, ".rodata", &bytes, &len, &vaddr), -ENOENT);
		assert_int_equal(elf__failed(e, NULL), -ESTALE);
		has_nothing(e);
		elf__free(e);
	}
}

/* As cp does it: the same inode, other bytes. What was handed out stays as it was. */
static void a_file_replaced_in_place_is_an_error(void **state)
{
	struct elf *e = open_built("replaced.so", "-shared -fPIC");
	struct timespec wait = { 0, 20000000 }; /* file times go by the timer tick */
	char junk[4096], name[16];
	struct elf_sym sym;
	const uint8_t *bytes;
	uint64_t vaddr;
	struct stat st;
	size_t len;
	int fd;

	(void)state;
	assert_int_equal(elf__find_symbol(e, "second", &sym), 0);
	snprintf(name, sizeof(name), "%s", sym.name);
	nanosleep(&wait, NULL);
	memset(junk, 0xee, sizeof(junk));
	fd = open(fixture_path("replaced.so"), O_WRONLY);
	assert_int_equal(fstat(fd, &st), 0);
	for (off_t at = 0; at < st.st_size; at += (off_t)sizeof(junk))
		assert_true(pwrite(fd, junk, st.st_size - at < 4096 ? (size_t)(st.st_size - at) : 4096, at) > 0);
	close(fd);
	assert_string_equal(sym.name, name);
	assert_int_equal(elf__section(e, ".rodata", &bytes, &len, &vaddr), -ENOENT);
	assert_int_equal(elf__failed(e, NULL), -ESTALE);
	has_nothing(e);
	assert_string_equal(sym.name, name);
	elf__free(e);
}

/* Unlinked and made anew is another file: the old one is whole, for us as for whoever has it mapped. */
static void a_new_file_of_the_name_is_none_of_our_business(void **state)
{
	struct elf *e = open_built("anew.so", "-shared -fPIC");
	const uint8_t *bytes;
	uint64_t vaddr;
	size_t len;

	(void)state;
	assert_int_equal(unlink(fixture_path("anew.so")), 0);
	fixture_build("anew.so", "", FIXTURE_WAITS(""));
	assert_int_equal(elf__section(e, ".rodata", &bytes, &len, &vaddr), 0);
	assert_true(len >= 70000);
	assert_int_equal(elf__failed(e, NULL), 0);
	elf__free(e);
}

/* One section gets another place and length, at the end of a file that is mostly a hole. */
static void make_giant(const char *name, uint32_t type, const char *section, uint64_t len)
{
	int fd = open(fixture_path(name), O_RDWR);
	const char *strs;
	Elf64_Ehdr eh;
	Elf64_Shdr sh;
	struct stat st;
	char names[4096];
	int found = 0;

	assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
	assert_int_equal(pread(fd, &sh, sizeof(sh), (off_t)(eh.e_shoff + eh.e_shstrndx * sizeof(sh))), sizeof(sh));
	assert_true(sh.sh_size < sizeof(names) && pread(fd, names, sh.sh_size, (off_t)sh.sh_offset) > 0);
	strs = names;
	fstat(fd, &st);
	for (unsigned i = 1; i < eh.e_shnum; i++) {
		off_t at = (off_t)(eh.e_shoff + i * sizeof(sh));

		assert_int_equal(pread(fd, &sh, sizeof(sh), at), sizeof(sh));
		if (sh.sh_type != type || strcmp(strs + sh.sh_name, section))
			continue;
		sh.sh_offset = ((uint64_t)st.st_size + 4095) & ~4095ull;
		sh.sh_size = len;
		assert_int_equal(ftruncate(fd, (off_t)(sh.sh_offset + len)), 0);
		assert_int_equal(pwrite(fd, &sh, sizeof(sh), at), sizeof(sh));
		found = 1;
	}
	assert_true(found);
	close(fd);
}

static void a_sparse_giant_is_an_error(void **state)
{
	const uint8_t *bytes;
	struct elf_sym sym;
	uint64_t vaddr, t0;
	struct elf *e;
	size_t len;

	(void)state;
	elf__free(open_built("giant.so", "-shared -fPIC"));
	make_giant("giant.so", SHT_PROGBITS, ".rodata", 8ull << 30);
	e = open_again("giant.so");
	assert_int_equal(elf__find_symbol(e, "second", &sym), 0);
	t0 = cpu_ns();
	assert_int_equal(elf__section(e, ".rodata", &bytes, &len, &vaddr), -ENOENT);
	assert_int_equal(elf__failed(e, NULL), -EFBIG);
	assert_true(cpu_ns() - t0 < 100000000ull); /* refused, not read: that takes seconds */
	has_nothing(e);
	elf__free(e);
	/* Longer than any address space that we would give. */
	assert_int_equal(truncate(fixture_path("giant.so"), 1ll << 40), 0);
	assert_int_equal(elf__open(&e, open(fixture_path("giant.so"), O_RDONLY), "giant.so", NULL), -EFBIG);
}

static void an_endless_symbol_table_is_an_error(void **state)
{
	static const char *const names[] = { "inner" };
	struct elf *e;
	int cnt = 0;

	(void)state;
	elf__free(open_built("endless.so", "-shared -fPIC"));
	make_giant("endless.so", SHT_DYNSYM, ".dynsym", sizeof(Elf64_Sym) * (ELF_SYMBOLS_MAX + 1ull));
	e = open_again("endless.so");
	/* .dynsym defines nothing now, so .symtab takes its place; that is asked for below */
	assert_int_equal(elf__each_symbol(e, count, &cnt), 0);
	elf__free(e);
	elf__free(open_built("endless.so", "-shared -fPIC"));
	make_giant("endless.so", SHT_SYMTAB, ".symtab", sizeof(Elf64_Sym) * (ELF_SYMBOLS_MAX + 1ull));
	e = open_again("endless.so");
	cnt = 0;
	assert_int_equal(elf__find_locals(e, names, 1, count_local, &cnt), 0);
	assert_int_equal(elf__failed(e, NULL), -EOVERFLOW);
	has_nothing(e);
	elf__free(e);
}

/* One chain of the hash table through every symbol: a look-up that would not end soon is given up. */
static void a_file_has_its_share_of_time(void **state)
{
	uint64_t t0 = now_ns(), ns;
	struct elf_sym sym;
	struct elf *e;
	unsigned asked = 0;

	(void)state;
	elf__free(open_built("slow.so", "-shared -fPIC -Wl,--hash-style=sysv"));
	make_giant("slow.so", SHT_SYMTAB, ".symtab", sizeof(Elf64_Sym) * (ELF_SYMBOLS_MAX - 1ull));
	e = open_again("slow.so");
	while (!elf__failed(e, NULL) && asked < 1000000) {
		asked++;
		(void)elf__find_local(e, "no such function", &sym);
	}
	ns = now_ns() - t0;
	assert_int_equal(elf__failed(e, NULL), -ETIME);
	print_message("%u scans of 4 M symbols in %.2f s, then it was enough\n", asked, (double)ns / 1e9);
	has_nothing(e);
	elf__free(e);
}

struct seen {
	const struct elf *elf;
	unsigned inner, other;
	struct elf_sym sym;
};

static int see_local(void *ctx, size_t name, const struct elf_sym *sym)
{
	struct seen *s = ctx;

	if (name == 1)
		s->inner++;
	else
		s->other++;
	assert_string_equal(sym->name, "inner");
	s->sym = *sym;
	return 0;
}

/* Names found in windows are those that a scan finds; "inner" may stand as the end of a longer name. */
static void finds_locals_by_name(void **state)
{
	static const char *const names[] = { "second_nowhere", "inner", "ner_" };
	static const char more[] = "__attribute__((noinline)) static int inner(int x) { return x * 3; }\n"
				   "__attribute__((noinline)) static int the_inner(int x) { return x * 5; }\n"
				   "int all(int x) { return inner(x) + the_inner(x); }\n";
	struct seen s = { 0 };
	struct elf *e = NULL;
	struct elf_sym want;

	(void)state;
	assert_int_equal(elf__open(&e, open(fixture_build("local.so", "-shared -fPIC -O0", more), O_RDONLY), "local.so", NULL),
			 0);
	assert_int_equal(elf__find_local(e, "inner", &want), 0);
	assert_int_equal(elf__find_locals(e, names, 3, see_local, &s), 0);
	assert_int_equal(s.inner, 1);
	assert_int_equal(s.other, 0);
	assert_true(s.sym.vaddr == want.vaddr && s.sym.offset == want.offset && s.sym.is_exec);
	elf__free(e);
}

static int see_code(void *ctx, const struct elf_code *code)
{
	struct seen *s = ctx;
	const char *name = elf__name_at(s->elf, code->name_at);

	assert_non_null(name);
	s->inner += !strcmp(name, "third") && code->size;
	s->other++;
	return 0;
}

static void tells_names_of_addresses(void **state)
{
	struct elf *e = open_built("code.so", "-shared -fPIC");
	struct seen s = { .elf = e };

	(void)state;
	assert_int_equal(elf__each_code(e, see_code, &s), 0);
	assert_int_equal(s.inner, 2); /* in both tables */
	assert_true(s.other > 6);
	assert_null(elf__name_at(e, UINT64_MAX));
	elf__free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_shrinks_is_an_error),
		cmocka_unit_test(a_file_replaced_in_place_is_an_error),
		cmocka_unit_test(a_new_file_of_the_name_is_none_of_our_business),
		cmocka_unit_test(a_sparse_giant_is_an_error),
		cmocka_unit_test(an_endless_symbol_table_is_an_error),
		cmocka_unit_test(a_file_has_its_share_of_time),
		cmocka_unit_test(finds_locals_by_name),
		cmocka_unit_test(tells_names_of_addresses),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
