/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Graphs, by hand: aliases, frees, schedules, forward and backward; and documents that are none. That the numbers are
 * torch's is what tests/e2e/test_estimate.py shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/err.h"
#include "estimate/estimate.h"
#include "estimate/graph_json.h"
#include "estimate/tracker.h"
#include "view/tables/estimate.h"

#define HEAD "{\"format\":\"memtrace-graph\",\"version\":1,\"devices\":[\"cuda:0\",\"cpu\"],"
#define ONE(nodes, storages) HEAD "\"graphs\":[{\"name\":\"g\",\"nodes\":[" nodes "]}],\"storages\":[" storages "]}"
#define NODE(name, op, ins, outs) "{\"name\":\"" name "\",\"op\":\"" op "\",\"inputs\":[" ins "],\"outputs\":[" outs "]}"
#define CALL(name, ins, outs) NODE(name, "call_function", ins, outs)

struct made {
	struct est_doc d;
	struct est_result r;
};

static void make(struct made *m, const char *json, int64_t counts)
{
	struct err err = { 0 };

	assert_int_equal(est_doc__init(&m->d), 0);
	if (graph_json_read_mem(&m->d, json, strlen(json), "g.json", &err) ||
	    est_result__init(&m->r, &m->d, counts < 0 ? est_not_cpu(&m->d) : (uint64_t)counts, &err))
		fail_msg("%s", err.msg);
}

static void done(struct made *m)
{
	est_result__done(&m->r);
	est_doc__done(&m->d);
}

static void assert_profile(const struct est_profile *p, const int64_t *want, size_t cnt)
{
	assert_int_equal(p->cnt, cnt);
	for (size_t i = 0; i < cnt; i++)
		if (p->at[i] != want[i])
			fail_msg("profile[%zu] is %lld, not %lld", i, (long long)p->at[i], (long long)want[i]);
}
#define ASSERT_PROFILE(p, ...) \
	assert_profile(p, (int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

/* x → a → view of a → b written into a; c is never used, d is on the CPU. */
static const char plain[] =
	ONE(NODE("primals_1", "placeholder", "", "0") "," NODE("w", "get_attr", "", "1") "," CALL("a", "0,1", "2") ","
	    CALL("view", "2", "2") "," CALL("add_", "3,0", "2") "," CALL("c", "", "3") "," CALL("d", "4", "4,5") ","
	    NODE("output", "output", "6", ""),
	    "[0,1000],[0,200],[0,30],[0,4],[1,70000],[0,500]");

static void test_profile(void **state)
{
	struct made m;
	const struct est_profile *p = &m.r.profiles[0];

	(void)state;
	make(&m, plain, -1);
	/* w goes after a (its last use), primals never, a's storage after d (by add_, a view of it), c never. */
	ASSERT_PROFILE(p, 1200, 1230, 1030, 1030, 1030, 1030, 1030, 1034, 1034, 1534, 1504);
	assert_int_equal(p->peak, 1534);
	assert_int_equal(p->peak_node, 6);
	assert_int_equal(p->peak_idx, 9);
	assert_int_equal(p->never_used, 4);
	assert_int_equal(p->alive_cnt, 4);
	assert_int_equal(p->alive[0].bytes, 1000);
	assert_int_equal(p->alive[1].node, 6);
	assert_int_equal(p->alive[3].bytes, 4);
	assert_null(m.r.fwd);
	done(&m);
	make(&m, plain, 2); /* the CPU alone */
	ASSERT_PROFILE(p, 0, 0, 0, 0, 0, 0, 0, 0, 0, 70000, 70000);
	done(&m);
	make(&m, plain, 0);
	assert_int_equal(p->peak, 0);
	assert_int_equal(p->peak_node, EST_NONE);
	assert_int_equal(p->alive_cnt, 0);
	done(&m);
}

/* A node that names an input or a storage twice uses it once; an `output` in the middle frees nothing. */
static void test_twice_and_output(void **state)
{
	struct made m;

	(void)state;
	make(&m, ONE(NODE("x", "placeholder", "", "0,0") "," CALL("a", "0,0", "1,1,1") "," NODE("o", "output", "0,1", "2") ","
		     CALL("b", "2", ""), "[0,8],[0,16],[0,32]"), -1);
	ASSERT_PROFILE(&m.r.profiles[0], 8, 24, 24, 24, -8);
	assert_int_equal(m.r.profiles[0].alive[0].storages, 1);
	assert_int_equal(m.d.graphs[0].outs_cnt, 3);
	done(&m);
}

static const char schedule_json[] =
	HEAD "\"graphs\":[{\"name\":\"g\",\"nodes\":["
	NODE("x", "placeholder", "", "0") "," CALL("a", "0", "1") "," CALL("b", "0", "2") "," CALL("va", "1", "1") ","
	CALL("c", "3,2", "3") "," NODE("output", "output", "4", "") "],\"schedule\":[%s]}],"
	"\"storages\":[[0,1],[0,10],[0,100],[0,1000]]}";

static int run_schedule(const char *order, struct made *m, struct err *err)
{
	char json[2048];
	int r;

	snprintf(json, sizeof(json), schedule_json, order);
	*err = (struct err){ 0 };
	assert_int_equal(est_doc__init(&m->d), 0);
	r = graph_json_read_mem(&m->d, json, strlen(json), "g.json", err);
	if (!r)
		r = est_result__init(&m->r, &m->d, est_not_cpu(&m->d), err);
	if (r < 0)
		est_doc__done(&m->d);
	return r;
}

static void test_schedule(void **state)
{
	static const int64_t now[] = { 101, 110, 110, 1000, 1000 };
	struct made m;
	struct err err;

	(void)state;
	assert_int_equal(run_schedule("2,1,3,4,5", &m, &err), 0);
	assert_int_equal(m.r.schedules[0].start, 1);
	assert_int_equal(m.r.schedules[0].peak, 1110);
	assert_int_equal(m.r.schedules[0].left, 1);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(m.r.schedules[0].now[i], now[i]);
	done(&m);
	assert_int_equal(run_schedule("", &m, &err), 0);
	assert_int_equal(m.r.schedules[0].cnt, 0);
	assert_true(m.d.graphs[0].has_schedule);
	done(&m);
	assert_int_equal(run_schedule("1,1", &m, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "node 1 'a' twice"));
	assert_int_equal(run_schedule("1,4", &m, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "its input, node 2 'b', is not there"));
	/* A view's storage is there once its allocator ran, whoever shows it. */
	assert_int_equal(run_schedule("1,2,4,3", &m, &err), 0);
	assert_int_equal(m.r.schedules[0].now[3], 1000);
	done(&m);
	assert_int_equal(run_schedule("6", &m, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "its schedule has node 6, and there are 6"));
}

static void test_pair(void **state)
{
	static const char json[] =
		HEAD "\"graphs\":[{\"name\":\"forward\",\"nodes\":["
		NODE("primals_1", "placeholder", "", "0") "," NODE("x", "placeholder", "", "1") "," CALL("mm", "0,1", "2") ","
		CALL("loss", "2", "3") "," NODE("output", "output", "3,2,0", "") "]},"
		"{\"name\":\"backward\",\"nodes\":["
		NODE("t", "placeholder", "", "0") "," NODE("mm", "placeholder", "", "2") ","
		NODE("tangents_1", "placeholder", "", "4") ","
		CALL("g", "0,1,2", "5") "," NODE("output", "output", "3", "") "]}],"
		"\"storages\":[[0,1],[0,10],[0,100],[0,1000],[0,10000],[0,100000]]}";
	struct made m;

	(void)state;
	make(&m, json, -1);
	assert_ptr_equal(m.r.fwd, &m.d.graphs[0]);
	assert_int_equal(m.r.pair.baseline, 1000); /* loss is returned, and not given to backward */
	assert_true(m.r.pair.named[0]);	/* t: a primal's memory */
	assert_false(m.r.pair.named[1]); /* mm: the forward graph returned it */
	assert_true(m.r.pair.named[2]);	/* the tangent comes from elsewhere */
	ASSERT_PROFILE(&m.r.profiles[0], 11, 111, 101, 1101, 1101);
	ASSERT_PROFILE(&m.r.profiles[1], 10101, 110101, 110001);
	assert_int_equal(m.r.pair_peak, 111101);
	done(&m);
}

/* --- documents that are none ----------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
	static const struct {
		const char *json, *where, *says;
	} bad[] = {
		{ "", "g.json", "is empty" },
		{ "   ", "g.json:1:", "premature EOF" },
		{ "[]", "g.json:1:", "a list, and not an object" },
		{ "7", "g.json:1:", "a number, and not an object" },
		{ "\x89MTR", "g.json:1:1", "not JSON" },
		{ "{}", "g.json:1:2", "without \"format\"" },
		{ "{\"format\":\"x\"}", "g.json:1:13", "its format is not memtrace-graph" },
		{ "{\n\"version\":2}", "g.json:2:11", "version 2 of the format" },
		{ "{\"version\":\"1\"}", "g.json:1:", "\"version\" is a string, it should be a whole number" },
		{ "{\"graphs\":{}}", "g.json:1:", "\"graphs\" is an object, it should be a list" },
		{ "{\"graphs\":[],\"graphs\":[]}", "g.json:1:", "\"graphs\" a second time" },
		{ "{\"devices\":[\"\"]}", "g.json:1:", "a device's name of 0 bytes" },
		{ "{\"devices\":[null]}", "g.json:1:", "null, where the name of a device" },
		{ "{\"storages\":[5]}", "g.json:1:", "a number, where a storage" },
		{ "{\"storages\":[[0]]}", "g.json:1:", "a storage without a size" },
		{ "{\"storages\":[[0,null]]}", "g.json:1:", "null in a storage" },
		{ "{\"storages\":[[0,-1]]}", "g.json:1:", "-1 is not a whole number" },
		{ "{\"storages\":[[0,1e3]]}", "g.json:1:", "1e3 is not a whole number" },
		{ "{\"storages\":[[0,1125899906842625]]}", "g.json:1:", "too large" },
		{ "{\"storages\":[[0,1,2]]}", "g.json:1:", "more than its device and its bytes" },
		{ "{\"x\":{\"a\":[1,2,{}],\"b\":null},\"y\":true}", "g.json:1:", "without \"format\"" },
		{ HEAD "\"graphs\":[],\"storages\":[]} x", "g.json:1:", "trailing garbage" },
		{ ONE("7", ""), "g.json:1:", "a number, where an object" },
		{ ONE("{\"op\":\"output\"}", ""), "g.json:1:", "a node without \"name\"" },
		{ ONE("{\"name\":\"a\",\"op\":\"call\"}", ""), "g.json:1:", "unknown op 'call'" },
		{ ONE("{\"name\":\"a\\u0000\"}", ""), "g.json:1:", "NUL" },
		{ ONE("{\"name\":\"a\",\"inputs\":[\"b\"]}", ""), "g.json:1:", "a string, where the number of a node" },
		{ ONE("{\"name\":\"a\",\"outputs\":[[]]}", ""), "g.json:1:", "a list, where the number of a storage" },
		{ ONE("{\"name\":\"\xff\"}", ""), "g.json:1:", "invalid bytes in UTF8" },
		{ ONE("\n" CALL("a", "1", "0") ",\n" CALL("b", "0", "0"), "[0,1]"), "(line 2)", "node 1 'b', comes after it" },
		{ ONE(CALL("a", "0", "0"), "[0,1]"), "(line 1)", "is itself" },
		{ ONE(CALL("a", "9", "0"), "[0,1]"), "node 0 'a'", "its input is node 9, and there are 1" },
		{ ONE(CALL("a", "", "1"), "[0,1]"), "(line 1)", "storage 1, and there are 1" },
		{ ONE(CALL("a", "", "0"), "[2,1]"), "storage 0", "device 2, and there are 2" },
		{ ONE(CALL("a", "", ""), "[0,1]"), "no sizes", "no node has outputs" },
		{ HEAD "\"graphs\":[],\"storages\":[]}", "no graph", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = { 0 };
		struct est_doc d;

		assert_int_equal(est_doc__init(&d), 0);
		if (graph_json_read_mem(&d, bad[i].json, strlen(bad[i].json), "g.json", &err) >= 0)
			fail_msg("taken: %s", bad[i].json);
		if (!strstr(err.msg, bad[i].where) || !strstr(err.msg, bad[i].says))
			fail_msg("%s\nsays: %s\nnot: %s %s", bad[i].json, err.msg, bad[i].where, bad[i].says);
		est_doc__done(&d);
	}
}

/* Every piece of a good document is refused, and says where it ends. */
static void test_truncated(void **state)
{
	size_t len = strlen(plain);

	(void)state;
	for (size_t n = 1; n < len; n++) {
		struct err err = { 0 };
		struct est_doc d;

		assert_int_equal(est_doc__init(&d), 0);
		assert_true(graph_json_read_mem(&d, plain, n, "g.json", &err) < 0);
		assert_non_null(strstr(err.msg, "g.json:1:"));
		assert_non_null(strstr(err.msg, "premature EOF"));
		assert_true(err.hint[0]);
		est_doc__done(&d);
	}
}

static void test_deep(void **state)
{
	size_t len = 1 << 20;
	char *json = malloc(len + 1);
	struct err err = { 0 };
	struct est_doc d;

	(void)state;
	memset(json, '[', len);
	memcpy(json, "{\"x\":", 5);
	json[len] = '\0';
	assert_int_equal(est_doc__init(&d), 0);
	assert_int_equal(graph_json_read_mem(&d, json, len, "g.json", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "nested deeper than 64"));
	est_doc__done(&d);
	free(json);
}

/* More than one piece of a file: lines are counted across them, and names that lie on a border are whole. */
static void test_stream(void **state)
{
	unsigned cnt = 40000;
	struct err err = { 0 };
	struct made m;
	FILE *f = tmpfile();

	(void)state;
	assert_non_null(f);
	fputs(HEAD "\"graphs\":[{\"name\":\"g\",\"nodes\":[\n" NODE("primals", "placeholder", "", "0"), f);
	for (unsigned i = 1; i < cnt; i++)
		fprintf(f, ",\n{\"name\":\"node_%u\",\"op\":\"call_function\",\"inputs\":[%u],\"outputs\":[%u]}", i, i - 1, i);
	fputs("]}],\"storages\":[", f);
	for (unsigned i = 0; i < cnt; i++)
		fprintf(f, "%s[0,%u]", i ? "," : "", i);
	fputs("]}", f);
	rewind(f);
	assert_int_equal(est_doc__init(&m.d), 0);
	assert_int_equal(graph_json_read(&m.d, f, "g.json", &err), 0);
	assert_int_equal(est_result__init(&m.r, &m.d, 1, &err), 0);
	assert_int_equal(m.r.profiles[0].peak, 2 * cnt - 3); /* the last two */
	for (unsigned i = 1; i < cnt; i++) {
		char name[24];

		snprintf(name, sizeof(name), "node_%u", i);
		assert_string_equal(est_doc__name(&m.d, &m.d.graphs[0].nodes[i]), name);
		assert_int_equal(m.d.graphs[0].nodes[i].line, i + 2);
	}
	done(&m);
	fclose(f);
}

/* --- views ------------------------------------------------------------------------------------------------------- */

static void test_views(void **state)
{
	struct view_opts v = { .top = 2 };
	char *text = NULL;
	size_t len = 0;
	struct made m;
	FILE *f;

	(void)state;
	make(&m, plain, -1);
	f = open_memstream(&text, &len);
	assert_int_equal(estimate_view_text(f, "plain.json", &m.r, &v), 0);
	fclose(f);
	assert_non_null(strstr(text, "1.50 KiB, in node 6, d ()"));
	assert_non_null(strstr(text, "cuda:0; not cpu (68.4 KiB)"));
	assert_non_null(strstr(text, "… and 2 more"));
	assert_non_null(strstr(text, "1000 B  65.2 %  primals_1"));
	free(text);
	f = open_memstream(&text, &len);
	assert_int_equal(estimate_view_json(f, "plain.json", &m.r, &v), 0);
	fclose(f);
	assert_non_null(strstr(text, "\"profile\": [1200,1230,1030,1030,1030,1030,1030,1034,1034,1534,1504]"));
	assert_non_null(strstr(text, "\"forward_backward\": null"));
	free(text);
	done(&m);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_profile),	  cmocka_unit_test(test_twice_and_output), cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_pair),	  cmocka_unit_test(test_refused),	   cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_deep),	  cmocka_unit_test(test_stream),	   cmocka_unit_test(test_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
