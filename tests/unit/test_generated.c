/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What lines of files that inductor generated say: real ones and versions' forms by tables, and what nobody should write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <time.h>

#include <cmocka.h>

#include "python/generated.h"

#define HEAD "from torch._inductor.async_compile import AsyncCompile\nasync_compile = AsyncCompile()\n"
#define FIRST "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
#define CALL HEAD "def call(args):\n" /* its first statement is on line 4 */

static char *read_whole(const char *name, size_t *ret_len)
{
	char path[128];
	char *buf = malloc(1 << 20);
	FILE *f;

	snprintf(path, sizeof(path), "tests/unit/generated/%s", name);
	f = fopen(path, "r");
	if (!f || !buf)
		fail_msg("%s: %s", path, strerror(errno));
	*ret_len = fread(buf, 1, (1 << 20) - 1, f);
	buf[*ret_len] = '\0';
	fclose(f);
	return buf;
}

static const char *or_none(const char *text)
{
	return text ? text : "-";
}

/* As tests/unit/generated/README.md says. */
static char *table_of(const struct generated_file *f, unsigned lines)
{
	struct generated_line l;
	char *table = NULL;
	size_t size;
	FILE *out = open_memstream(&table, &size);

	fprintf(out, "graph %s\n", or_none(generated__graph(f)));
	for (unsigned line = 0; line <= lines; line++) {
		if (generated__line(f, line, &l))
			continue;
		fprintf(out, "%u | %s | %s | %u | ", line, or_none(l.buffer), or_none(l.kernel), l.kernel_line);
		fprintf(out, "%s | %s | %s | ", or_none(l.ops), or_none(l.nodes), or_none(l.shape));
		fprintf(out, "%s%s", l.is_reuse ? "R" : "-", l.is_output ? "O" : "-");
		fprintf(out, l.later ? " | %s\n" : "%s\n", l.later ? l.later : "");
	}
	fclose(out);
	return table;
}

static const char *const files[] = {
	"forward-2.13", "convolution-2.13", "dynamic-2.13", "branches-2.13", "pool-2.13", "optimizer-2.13",
	"triton-2.4", "triton-2.8", "subgraphs-2.15",
};

static void reads_files_of_each_version(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char name[64];
		size_t len, wanted_len;
		char *text, *wanted, *table;
		struct generated_file *f;

		snprintf(name, sizeof(name), "%s.txt", files[i]);
		text = read_whole(name, &len);
		snprintf(name, sizeof(name), "%s.lines", files[i]);
		wanted = read_whole(name, &wanted_len);
		assert_int_equal(generated__parse(text, len, &f), 0);
		memset(text, 'x', len); /* it is not kept */
		table = table_of(f, 1000);
		assert_string_equal(table, wanted);
		generated__free(f);
		free(table);
		free(wanted);
		free(text);
	}
}

static struct generated_file *parsed(const char *text)
{
	struct generated_file *f = NULL;
	int r = generated__parse(text, strlen(text), &f);

	if (r)
		fail_msg("%d: %s", r, text);
	return f;
}

/* The one line of `text` that `line` is, behind CALL. */
static struct generated_line said(struct generated_file **f, const char *text, unsigned line)
{
	struct generated_line l = { .kernel = "none" };
	char *all;

	assert_true(asprintf(&all, CALL "%s", text) > 0);
	*f = parsed(all);
	free(all);
	if (generated__line(*f, line, &l))
		fail_msg("line %u says nothing of\n%s", line, text);
	return l;
}

static void is_no_such_file(void **state)
{
	static const char *const others[] = {
		"", "\n", "import torch\ndef call(args):\n    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n",
		"from torch._inductor import config\nx = 1\n", "async_compile = AsyncCompile()\n",
		"def f():\n    from torch._inductor import x\n    async_compile = AsyncCompile()\n",
		"'''\n" HEAD "'''\n", "# " HEAD,
	};
	struct generated_file *f = (void *)1;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_int_equal(generated__parse(others[i], strlen(others[i]), &f), -EINVAL);
	assert_int_equal(generated__parse(NULL, 0, &f), -EINVAL);
	assert_ptr_equal(f, (void *)1);
	generated__free(NULL);
	f = parsed(HEAD); /* one, with nothing in it */
	assert_int_equal(generated__line(f, 1, &(struct generated_line){ 0 }), -ENOENT);
	generated__free(f);
}

/* What stands in a string, outside of functions, or looks like an allocation and is none. */
static void says_nothing_of_what_allocates_nothing(void **state)
{
	struct generated_line l;
	struct generated_file *f = parsed(HEAD "buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
						"def call(args):\n"
						"    s0 = arg0_1\n"
						"    stream0 = get_raw_stream(0)\n"
						"    x = '''\n"
						"    buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
						"    '''\n"
						"    u0 = buf1.item()\n"
						"    buf0 == empty_strided_cpu((4, ), (1, ), torch.float32)\n"
						"    if (buf0):\n"
						"        args.clear()\n"
						"    assert_size_stride(buf0, (4, ), (1, ))\n"
						"buf2 = empty_strided_cpu((4, ), (1, ), torch.float32)\n");

	(void)state;
	for (unsigned line = 0; line < 20; line++)
		assert_int_equal(generated__line(f, line, &l), -ENOENT);
	assert_int_equal(generated__line(f, UINT32_MAX, &l), -ENOENT);
	generated__free(f);
}

static void takes_the_first_call_that_has_it(void **state)
{
	struct generated_file *f;
	struct generated_line l = said(&f, "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
					   "    cpp_fused_other_0(buf00, 'buf0')  # buf0\n"
					   "    cpp_fused_add_1(arg0_1, buf0); del arg0_1\n"
					   "    cpp_fused_mul_2(buf0)\n", 4);

	(void)state;
	assert_string_equal(l.kernel, "cpp_fused_add_1");
	assert_int_equal(l.kernel_line, 6);
	assert_false(l.is_output);
	assert_null(l.ops);
	generated__free(f);
}

/* A comment belongs to the one call behind it. */
static void gives_a_comment_to_one_call(void **state)
{
	struct generated_file *f;
	struct generated_line l = said(&f, "    # Source Nodes: [a], Original ATen: [aten.add]\n"
					   "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
					   "    cpp_fused_0(buf0)\n"
					   "    buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
					   "    cpp_fused_1(buf1)\n", 5);

	(void)state;
	assert_string_equal(l.ops, "aten.add");
	assert_string_equal(l.nodes, "a");
	assert_int_equal(generated__line(f, 7, &l), 0);
	assert_null(l.ops);
	assert_null(l.nodes);
	assert_string_equal(l.kernel, "cpp_fused_1");
	generated__free(f);
}

static void says_the_graph(void **state)
{
	static const struct {
		const char *comment, *graph;
	} ids[] = {
		{ "# AOT ID: ['0_forward']\n", "forward" }, { "# AOT ID: ['model__12_backward']\n", "backward" },
		{ "# AOT ID: ['1_inference']\n", "inference" }, { "# AOT ID: ['1_joint']\n", NULL },
		{ "# AOT ID: ['1_forward\n", NULL }, { "# AOT ID: None\n", NULL }, { "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		char text[256];
		struct generated_file *f;

		snprintf(text, sizeof(text), "%s" HEAD, ids[i].comment);
		f = parsed(text);
		if (ids[i].graph)
			assert_string_equal(generated__graph(f), ids[i].graph);
		else
			assert_null(generated__graph(f));
		generated__free(f);
	}
}

static void require_clean(const char *text)
{
	for (; text && *text; text++) {
		if (*text < ' ' || *text > '~')
			fail_msg("byte %d", *text);
	}
}

/* Names that nobody should print are left out, and the others stay. */
static void leaves_out_what_is_not_printable(void **state)
{
	struct generated_file *f;
	struct generated_line l = said(&f, "    # Source Nodes: [a\033[2J, b, \xe2\x80\xae, c d], "
					   "Original ATen: [aten.\x01mm, aten.t]\n"
					   "    buf0 = torch.ops.aten.mm(x, (\033, 4))\n"
					   "    buf1 = empty_strided_cpu((4, \0331), (1, ), torch.float32)\n"
					   "    buf2\033[0m = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
					   "    buf3 = empty_strided_cpu((5, ), (1, ), torch.\033[1mfloat)\n"
					   "    buf4 = torch.ops.aten.\xe2\x80\xae.default(x)\n", 5);

	(void)state;
	assert_string_equal(l.nodes, "b");
	assert_string_equal(l.ops, "aten.t");
	for (unsigned line = 1; line < 12; line++) {
		if (generated__line(f, line, &l))
			continue;
		require_clean(l.buffer);
		require_clean(l.kernel);
		require_clean(l.shape);
	}
	assert_int_equal(generated__line(f, 6, &l), 0);
	assert_null(l.shape);
	assert_int_equal(generated__line(f, 7, &l), -ENOENT);
	generated__free(f);
}

/* Many of `piece`, with a number in it where it has one, behind `head`. */
static char *many(const char *head, const char *piece, unsigned cnt, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	fputs(head, out);
	for (unsigned i = 0; i < cnt; i++)
		fprintf(out, piece, i, i ? i - 1 : 0, i);
	fclose(out);
	return text;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Each is as large as a file may be, or has as many lines: a square of either would take minutes. */
static void takes_no_square_of_time(void **state)
{
	static const struct {
		const char *head, *piece;
		unsigned cnt;
		int r;
	} texts[] = {
		{ CALL, "    buf%u = empty_strided_cpu((4, ), (1, ), torch.float32)\n", 60000, 0 },
		{ CALL, "    buf%u = empty_strided_cpu((4, ), (1, ), torch.float32)\n", 66000, -E2BIG },
		{ CALL FIRST, "    buf%u = buf%u; del x  # reuse\n", 60000, 0 },
		{ CALL FIRST, "    buf%u = buf%u  # reuse\n    return (buf0, )\n", 30000, 0 },
		{ CALL, "    buf%u = reinterpret_tensor(buf%u, (4, 4))  # reuse\n    cpp_fused_0(buf%u)\n", 30000, 0 },
		{ CALL, "(", 8000000, 0 },
		{ CALL "    cpp_fused_0", "(buf0, ", 1000000, 0 },
		{ CALL "    # Source Nodes: [", "a%u, ", 600000, 0 },
		{ CALL "    # Source Nodes: [", "Source Nodes: [", 500000, 0 },
		{ CALL "    x = ", "'", 8000000, 0 },
		{ CALL "    x = '''", "\\'", 4000000, 0 },
		{ CALL "    x = ", "#\n", 190000, 0 },
		{ HEAD, "def f%u(args):\n    buf0 = f%u(args)\n    return (buf0, )\n", 60000, 0 },
		{ HEAD "def f(args):\n" FIRST "    return (buf0, )\ndef call(args):\n", "    buf%u = f(args)\n", 60000, 0 },
		{ HEAD "# AOT ID: [", "_forward", 1000000, 0 },
		{ CALL "    buf0.", "a.", 4000000, 0 },
		{ CALL "    buf0 = empty_strided_cpu(", "torch.", 1000000, 0 },
		{ CALL "    (", "buf%u, ", 600000, 0 },
		{ CALL, "\n", 199990, 0 },
		{ CALL, "\n", 200000, -E2BIG },
		{ CALL "    x = (", "\n", 200000, -E2BIG },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct generated_file *f = NULL;
		size_t len;
		char *text = many(texts[i].head, texts[i].piece, texts[i].cnt, &len);
		double before = seconds();
		int r = generated__parse(text, len, &f);

		if (r != texts[i].r)
			fail_msg("text %zu: %d, not %d", i, r, texts[i].r);
		if (seconds() - before > 5)
			fail_msg("text %zu took %.1f s", i, seconds() - before);
		if (f)
			assert_true(generated__bytes(f) < 3 * len + (8 << 20));
		generated__free(f);
		free(text);
	}
}

static void refuses_what_is_too_large(void **state)
{
	struct generated_file *f = NULL;
	size_t len = GENERATED_BYTES_MAX + 1;
	char *text = malloc(len);

	(void)state;
	memset(text, ' ', len);
	memcpy(text, CALL, strlen(CALL));
	assert_int_equal(generated__parse(text, len, &f), -E2BIG);
	assert_int_equal(generated__parse(text, len - 1, &f), 0);
	generated__free(f);
	free(text);
}

/* Cut anywhere, and with a NUL anywhere, a real file is still read within its bounds (the address sanitizer looks). */
static void reads_what_is_cut(void **state)
{
	size_t len;
	char *text = read_whole("triton-2.8.txt", &len);

	(void)state;
	for (size_t cut = 0; cut <= len; cut++) {
		char *piece = malloc(cut ? cut : 1);
		struct generated_file *f = NULL;

		memcpy(piece, text, cut);
		if (!generated__parse(piece, cut, &f))
			free(table_of(f, 120));
		generated__free(f);
		f = NULL;
		if (cut)
			piece[cut / 2] = '\0';
		(void)generated__parse(piece, cut, &f);
		generated__free(f);
		free(piece);
	}
	free(text);
}

/* Lists lose what does not fit at a name, and names that are too long say nothing. */
static void cuts_long_texts_at_names(void **state)
{
	char list[4096] = "", text[8192], name[400];
	struct generated_file *f;
	struct generated_line l;

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		snprintf(list + strlen(list), 32, "%saten.name_%03u", i ? ", " : "", i);
	snprintf(text, sizeof(text), "    # Source Nodes: [], Original ATen: [%s]\n    cpp_fused_0(buf0)\n", list);
	l = said(&f, text, 5);
	assert_true(strlen(l.ops) < GENERATED_TEXT_MAX && strlen(l.ops) > GENERATED_TEXT_MAX - 32);
	assert_memory_equal(l.ops, list, strlen(l.ops));
	assert_int_equal(list[strlen(l.ops)], ',');
	generated__free(f);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	snprintf(text, sizeof(text), "    buf0 = torch.ops.aten.%s.default(x)\n    buf%s = empty_strided_cpu(())\n",
		 name, name);
	l = said(&f, text, 4);
	assert_string_equal(l.buffer, "buf0");
	assert_null(l.kernel);
	assert_int_equal(generated__line(f, 5, &l), -ENOENT);
	generated__free(f);
}

static void require_op(struct generated_line l, size_t size, const char *wanted)
{
	char buf[GENERATED_OP_MAX + 2];
	size_t n;

	memset(buf, '#', sizeof(buf));
	n = generated__op_text(&l, buf, size);
	if (strcmp(buf, wanted) || n != strlen(wanted))
		fail_msg("%zu, %s: not %s", n, buf, wanted);
	assert_int_equal(buf[size], '#');
}

static void says_the_operator(void **state)
{
	struct generated_line mm = { .kernel = "extern_kernels.mm", .ops = "aten.t, aten.mm" };
	char long_name[BUFSIZ];

	(void)state;
	require_op((struct generated_line){ .buffer = "buf0" }, GENERATED_OP_MAX, "inductor");
	require_op((struct generated_line){ .kernel = "cpp_fused_add_0" }, GENERATED_OP_MAX, "inductor: cpp_fused_add_0");
	require_op((struct generated_line){ .kernel = "aten.convolution", .ops = "aten.convolution" }, GENERATED_OP_MAX,
		   "inductor: aten.convolution");
	require_op(mm, GENERATED_OP_MAX, "inductor: extern_kernels.mm (aten.t, aten.mm)");
	require_op(mm, 46, "inductor: extern_kernels.mm (aten.t, aten.mm)"); /* 45 and its NUL */
	require_op(mm, 45, "inductor: extern_kernels.mm (aten.t, …)");
	require_op(mm, 42, "inductor: extern_kernels.mm (aten.t, …)"); /* 41 and its NUL */
	require_op(mm, 41, "inductor: extern_kernels.mm (…)");
	require_op(mm, 34, "inductor: extern_kernels.mm (…)"); /* 33 and its NUL */
	require_op(mm, 33, "inductor: extern_kernels.mm");
	require_op(mm, 28, "inductor: extern_kernels.mm");
	require_op(mm, 27, "inductor: extern_kernel…");
	require_op(mm, 1, "");
	assert_int_equal(generated__op_text(&mm, NULL, 0), 0);
	memset(long_name, 'k', 300);
	long_name[300] = '\0';
	mm.kernel = long_name;
	for (size_t size = 1; size <= GENERATED_OP_MAX; size++) {
		char buf[GENERATED_OP_MAX];

		assert_int_equal(generated__op_text(&mm, buf, size), size - 1);
		assert_int_equal(strlen(buf), size - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_files_of_each_version),
		cmocka_unit_test(is_no_such_file),
		cmocka_unit_test(says_nothing_of_what_allocates_nothing),
		cmocka_unit_test(takes_the_first_call_that_has_it),
		cmocka_unit_test(gives_a_comment_to_one_call),
		cmocka_unit_test(says_the_graph),
		cmocka_unit_test(leaves_out_what_is_not_printable),
		cmocka_unit_test(takes_no_square_of_time),
		cmocka_unit_test(refuses_what_is_too_large),
		cmocka_unit_test(reads_what_is_cut),
		cmocka_unit_test(cuts_long_texts_at_names),
		cmocka_unit_test(says_the_operator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
