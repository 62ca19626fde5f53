/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The ELF reader on this machine's libc, on files built here, and on damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>

#include <cmocka.h>

#include "base/err.h"
#include "target/elf.h"
#include "unit/fixture.h"

static struct elf *open_path(const char *path)
{
	struct err err = { 0 };
	struct elf *e = NULL;

	if (elf__open(&e, open(path, O_RDONLY), path, &err) < 0)
		fail_msg("%s", err.msg);
	return e;
}

static uint8_t *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;

	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	*len = (size_t)ftell(f);
	rewind(f);
	data = malloc(*len);
	assert_int_equal(fread(data, 1, *len, f), *len);
	fclose(f);
	return data;
}

/* --- symbols ----------------------------------------------------------------------------------------- */

static const char lib_source[] = "int first(void) { return 1; }\n"
				 "int second(int x) { return x + first(); }\n"
				 "int table[10] = { 1 };\n"
				 "static int hidden(void) { return 3; }\n"
				 "int undefined_here(void);\n"
				 "int third(void) { return hidden() + undefined_here(); }\n"
				 "#ifdef VERSIONED\n"
				 "int versioned_new(void) { return 2; }\n"
				 "int versioned_old(void) { return 1; }\n"
				 "__asm__(\".symver versioned_old,versioned@V1\");\n"
				 "__asm__(\".symver versioned_new,versioned@@V2\");\n"
				 "#endif\n";

struct tally {
	const struct elf *elf;
	int all, same;
	int stop_at;
};

/* Each symbol that is listed is found by its name (versions apart), at the same place. */
static int tally_symbol(void *ctx, const struct elf_sym *sym)
{
	struct tally *t = ctx;
	struct elf_sym found;

	t->all++;
	if (elf__find_symbol(t->elf, sym->name, &found) == 0 && found.vaddr == sym->vaddr)
		t->same++;
	return t->stop_at && t->all == t->stop_at ? 42 : 0;
}

static void check_lookup(const char *name, const char *flags)
{
	struct elf *e = open_path(fixture_build(name, flags, lib_source));
	struct tally t = { .elf = e };
	struct elf_sym sym;

	assert_int_equal(elf__find_symbol(e, "second", &sym), 0);
	assert_int_equal(sym.type, STT_FUNC);
	assert_true(sym.is_exec && sym.size > 0);
	assert_true(sym.offset == elf__offset_of(e, sym.vaddr));
	assert_int_equal(elf__find_symbol(e, "table", &sym), 0);
	assert_int_equal(sym.type, STT_OBJECT);
	assert_int_equal(sym.size, 40);
	assert_false(sym.is_exec);
	assert_int_equal(elf__find_symbol(e, "undefined_here", &sym), -ENOENT);
	assert_int_equal(elf__find_symbol(e, "hidden", &sym), -ENOENT);
	assert_int_equal(elf__find_symbol(e, "secon", &sym), -ENOENT);
	assert_int_equal(elf__find_symbol(e, "second2", &sym), -ENOENT);
	assert_int_equal(elf__find_symbol(e, "", &sym), -ENOENT);
	assert_int_equal(elf__each_symbol(e, tally_symbol, &t), 0);
	assert_true(t.all >= 4 && t.same >= t.all - 1);
	t = (struct tally){ .elf = e, .stop_at = 2 };
	assert_int_equal(elf__each_symbol(e, tally_symbol, &t), 42);
	assert_int_equal(t.all, 2);
	elf__free(e);
}

static void looks_up_through_each_table(void **state)
{
	(void)state;
	check_lookup("gnu.so", "-shared -fPIC -Wl,--hash-style=gnu");
	check_lookup("sysv.so", "-shared -fPIC -Wl,--hash-style=sysv");
	check_lookup("both.so", "-shared -fPIC -s -Wl,--hash-style=both");
}

/* Without section headers the dynamic segment must do. */
static void works_without_sections(void **state)
{
	static const char *const styles[] = { "gnu", "sysv" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		char flags[128];
		struct elf *e, *bare;
		struct elf_sym a, b;
		struct tally t = { 0 }, u = { 0 };
		uint8_t *data;
		size_t len;

		snprintf(flags, sizeof(flags), "-shared -fPIC -Wl,--hash-style=%s", styles[i]);
		e = open_path(fixture_build("cut.so", flags, lib_source));
		data = read_file(fixture_path("cut.so"), &len);
		((Elf64_Ehdr *)data)->e_shoff = 0;
		((Elf64_Ehdr *)data)->e_shnum = 0;
		assert_int_equal(elf__open_mem(&bare, data, len, "bare", NULL), 0);
		assert_int_equal(elf__find_symbol(e, "second", &a), 0);
		assert_int_equal(elf__find_symbol(bare, "second", &b), 0);
		assert_true(a.vaddr == b.vaddr && a.size == b.size);
		t.elf = e;
		u.elf = bare;
		elf__each_symbol(e, tally_symbol, &t);
		elf__each_symbol(bare, tally_symbol, &u);
		assert_int_equal(t.all, u.all);
		assert_true(elf__is_stripped(bare));
		elf__free(e);
		elf__free(bare);
		free(data);
	}
}

static void default_version_wins(void **state)
{
	struct elf_sym sym, want;
	struct elf *e;
	FILE *f;

	(void)state;
	f = fopen(fixture_path("v.map"), "w");
	fputs("V1 { global: *; };\nV2 { } V1;\n", f);
	fclose(f);
	{
		char flags[256];

		snprintf(flags, sizeof(flags), "-DVERSIONED -shared -fPIC -Wl,--version-script=%s",
			 fixture_path("v.map"));
		e = open_path(fixture_build("v.so", flags, lib_source));
	}
	assert_int_equal(elf__find_symbol(e, "versioned", &sym), 0);
	assert_int_equal(elf__find_symbol(e, "versioned_new", &want), 0);
	assert_true(sym.vaddr == want.vaddr);
	elf__free(e);
}

/* --- kinds of files ---------------------------------------------------------------------------------- */

static void tells_static_and_stripped(void **state)
{
	static const struct {
		const char *name, *flags;
		int is_static, is_stripped, has_main, has_malloc;
	} kinds[] = {
		{ "dyn", "", 0, 0, 1, 0 },
		{ "dyn-s", "-s", 0, 1, 0, 0 },
		{ "static", "-static", 1, 0, 1, 1 },
		{ "static-s", "-static -s", 1, 1, 0, 0 },
		{ "static-pie", "-static-pie", 1, 0, 1, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct elf *e = open_path(fixture_build(kinds[i].name, kinds[i].flags, FIXTURE_WAITS("")));
		struct elf_sym sym;

		assert_int_equal(elf__is_static(e), kinds[i].is_static);
		assert_int_equal(elf__is_stripped(e), kinds[i].is_stripped);
		assert_int_equal(elf__find_symbol(e, "main", &sym), kinds[i].has_main ? 0 : -ENOENT);
		assert_int_equal(elf__find_symbol(e, "malloc", &sym), kinds[i].has_malloc ? 0 : -ENOENT);
		elf__free(e);
	}
}

static void says_what_it_is(void **state)
{
	static const uint8_t arm[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 3, [18] = 183 };
	static const uint8_t x86_32[64] = { 0x7f, 'E', 'L', 'F', 1, 1, 1 };
	static const uint8_t object[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 1, [18] = 62 };
	static const struct {
		const void *data;
		size_t len;
		const char *says;
	} files[] = {
		{ "", 0, "empty" },
		{ "#!/bin/sh\n", 10, "script" },
		{ "PK\3\4aaaaaaaaaaaaaaaa", 20, "not an ELF" },
		{ arm, sizeof(arm), "another processor" },
		{ x86_32, sizeof(x86_32), "32-bit" },
		{ object, sizeof(object), "neither a program nor a shared library" },
		{ arm, 40, "cut" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		struct err err = { 0 };
		struct elf *e = NULL;

		assert_int_equal(elf__open_mem(&e, files[i].data, files[i].len, "thing", &err), -ENOEXEC);
		assert_null(e);
		if (!strstr(err.msg, files[i].says) || !strstr(err.msg, "thing"))
			fail_msg("%s", err.msg);
	}
	{
		struct elf *e = NULL;

		assert_int_equal(elf__open(&e, open("/dev/null", O_RDONLY), "null", NULL), -ENOEXEC);
		assert_null(e);
	}
}

/* --- USDT notes -------------------------------------------------------------------------------------- */

static const char usdt_source[] = "#include \"memtrace/usdt.h\"\n"
				  "int main(int c, char **v)\n{\n"
				  "\tMEMTRACE_OP_BEGIN(v[0]);\n\tMEMTRACE_ALLOC(v, c, 3);\n"
				  "\tMEMTRACE_OP_END();\n\treturn 0;\n}\n";

struct notes {
	const struct elf *elf;
	int cnt, has_alloc;
};

static int see_note(void *ctx, const struct sdt_note *note)
{
	struct notes *n = ctx;
	const uint8_t *code;
	size_t len;

	n->cnt++;
	assert_string_equal(note->provider, "memtrace");
	code = elf__bytes(n->elf, note->pc_offset, 16, &len);
	assert_true(len > 1 && code[0] == 0x90);
	assert_true(note->semaphore_offset != 0);
	code = elf__bytes(n->elf, note->semaphore_offset, 2, &len);
	assert_true(len > 1 && code[0] == 0 && code[1] == 0);
	if (!strcmp(note->name, "alloc")) {
		n->has_alloc = 1;
		assert_non_null(strstr(note->args, "-4@$3"));
	}
	return 0;
}

static void finds_usdt_probes(void **state)
{
	static const char *const flags[] = { "", "-static", "-no-pie", "-s" };

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		struct elf *e = open_path(fixture_build("usdt", flags[i], usdt_source));
		struct notes n = { .elf = e };
		const uint8_t *bytes;
		uint64_t vaddr;
		size_t len;

		assert_int_equal(elf__section(e, ".note.stapsdt", &bytes, &len, &vaddr), 0);
		assert_int_equal(elf__each_sdt_note(e, see_note, &n), 0);
		assert_true(n.cnt >= 3 && n.has_alloc);
		elf__free(e);
	}
}

static int first_note(void *ctx, const struct sdt_note *note)
{
	*(struct sdt_note *)ctx = *note;
	return 1;
}

/* A file moved after linking: the base section tells by how much. */
static void corrects_by_the_base(void **state)
{
	struct sdt_note before, after;
	Elf64_Shdr *sh;
	struct elf *e;
	uint8_t *data;
	size_t len;

	(void)state;
	fixture_build("moved", "", usdt_source);
	data = read_file(fixture_path("moved"), &len);
	assert_int_equal(elf__open_mem(&e, data, len, "moved", NULL), 0);
	assert_int_equal(elf__each_sdt_note(e, first_note, &before), 1);
	elf__free(e);
	sh = (Elf64_Shdr *)(data + ((Elf64_Ehdr *)data)->e_shoff);
	for (int i = 0; i < ((Elf64_Ehdr *)data)->e_shnum; i++) {
		const char *names = (char *)data + sh[((Elf64_Ehdr *)data)->e_shstrndx].sh_offset;

		if (!strcmp(names + sh[i].sh_name, ".stapsdt.base"))
			sh[i].sh_addr -= 2;
	}
	assert_int_equal(elf__open_mem(&e, data, len, "moved", NULL), 0);
	assert_int_equal(elf__each_sdt_note(e, first_note, &after), 1);
	assert_int_equal(after.pc_offset, before.pc_offset - 2);
	assert_int_equal(after.semaphore_offset, before.semaphore_offset - 2);
	elf__free(e);
	free(data);
}

/* --- addresses ------------------------------------------------------------------------------------------
 */

static int see_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	(void)ctx;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t page = p->p_vaddr & ~4095ull, bias = 1;
		struct elf *e;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || info->dlpi_name[0] != '/')
			continue;
		e = open_path(info->dlpi_name);
		/* the whole mapping, and a later page of it, as after an mprotect */
		assert_int_equal(elf__load_bias(e, info->dlpi_addr + page, p->p_offset & ~4095ull, &bias),
				 0);
		assert_true(bias == info->dlpi_addr);
		if (p->p_filesz > 8192) {
			assert_int_equal(elf__load_bias(e, info->dlpi_addr + page + 4096,
							(p->p_offset & ~4095ull) + 4096, &bias),
					 0);
			assert_true(bias == info->dlpi_addr);
		}
		assert_int_equal(elf__load_bias(e, 4096, 1ull << 40, &bias), -ENOENT);
		elf__free(e);
	}
	return 0;
}

static void load_bias_is_the_linkers(void **state)
{
	(void)state;
	dl_iterate_phdr(see_module, NULL);
}

/* --- damage
 * ------------------------------------------------------------------------------------------------ */

static int any_symbol(void *ctx, const struct elf_sym *sym)
{
	*(size_t *)ctx += strlen(sym->name);
	return 0;
}

static int any_note(void *ctx, const struct sdt_note *note)
{
	*(size_t *)ctx += strlen(note->provider) + strlen(note->name) + strlen(note->args);
	return 0;
}

/* All questions; the sanitizers tell whether an answer went astray. */
static void ask_everything(const uint8_t *data, size_t len)
{
	const uint8_t *bytes;
	struct elf_sym sym;
	struct elf *e;
	uint64_t vaddr;
	size_t n = 0;

	if (elf__open_mem(&e, data, len, "damaged", NULL) < 0)
		return;
	(void)elf__find_symbol(e, "main", &sym);
	(void)elf__find_symbol(e, "second", &sym);
	(void)elf__each_symbol(e, any_symbol, &n);
	(void)elf__each_sdt_note(e, any_note, &n);
	if (elf__section(e, ".rodata", &bytes, &n, &vaddr) == 0 && n)
		(void)*(volatile const uint8_t *)(bytes + n - 1);
	(void)elf__is_static(e);
	elf__free(e);
}

static void survives_being_cut(void **state)
{
	uint8_t *data, *part;
	size_t len;

	(void)state;
	fixture_build("whole", "-Wl,-z,noseparate-code", usdt_source);
	data = read_file(fixture_path("whole"), &len);
	for (size_t n = 0; n <= len; n += n < 1024 ? 1 : 61) {
		part = malloc(n ? n : 1); /* a block of its own: reads past the end are caught */
		memcpy(part, data, n);
		ask_everything(part, n);
		free(part);
	}
	free(data);
}

/* One field at a time gets the worst values, in all headers. */
static void survives_wild_headers(void **state)
{
	static const uint64_t wild[] = { 0, 1, 0x7fffffff, 0xffffffff, 1ull << 63, ~0ull, ~0ull - 4095 };
	uint8_t *data;
	size_t len;
	Elf64_Ehdr *eh;

	(void)state;
	fixture_build("wild.so", "-shared -fPIC -Wl,-z,noseparate-code", lib_source);
	data = read_file(fixture_path("wild.so"), &len);
	eh = (Elf64_Ehdr *)data;
	for (int part = 0; part < 3; part++) {
		size_t at = part == 0 ? 16 : part == 1 ? eh->e_phoff : eh->e_shoff;
		size_t end = part == 0 ? 64 : part == 1 ? at + eh->e_phnum * 56u : at + eh->e_shnum * 64u;

		for (; at + 8 <= end; at += 4)
			for (size_t w = 0; w < sizeof(wild) / sizeof(*wild); w++) {
				uint64_t old;

				memcpy(&old, data + at, 8);
				memcpy(data + at, &wild[w], w % 2 ? 8 : 4);
				ask_everything(data, len);
				memcpy(data + at, &old, 8);
			}
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looks_up_through_each_table),
		cmocka_unit_test(works_without_sections),
		cmocka_unit_test(default_version_wins),
		cmocka_unit_test(tells_static_and_stripped),
		cmocka_unit_test(says_what_it_is),
		cmocka_unit_test(finds_usdt_probes),
		cmocka_unit_test(corrects_by_the_base),
		cmocka_unit_test(load_bias_is_the_linkers),
		cmocka_unit_test(survives_being_cut),
		cmocka_unit_test(survives_wild_headers),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
