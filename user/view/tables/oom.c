/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The latest first: it is the one that users look for. It is shown in full, older ones in a line each. */
#include "view/tables/oom.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "event/event.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/tables/segments.h"
#include "view/tables/tables.h"

#define BLOCKS_SHOWN 5
#define OPS_SHOWN 5
#define SEGS_SHOWN 5

static const char *const oom_kinds[] = { "?", "device", "host", "death" };

static int is_reported(const struct report_oom *o)
{
	int sig = WTERMSIG((int)o->exit_status);

	return o->kind != OOM_DEATH || o->killed || !signal_sends_away(sig);
}

/* --- text --------------------------------------------------------------------------------------------- */

#define BEFORE_DEATH_NS 5000000000ull

/* The memory refused to the process shortly before it ended, as by an uncaught exception; NULL. */
static const struct report_oom *refusal_before(const struct report *r, const struct report_oom *death)
{
	for (size_t i = r->ooms.cnt; i-- > 0;) {
		const struct report_oom *o = &r->ooms.rows[i];

		if (o->kind != OOM_DEATH && o->pid == death->pid && o->ts_ns <= death->ts_ns &&
		    death->ts_ns - o->ts_ns < BEFORE_DEATH_NS)
			return o;
	}
	return NULL;
}

/* A signal alone may come from anywhere. */
static int is_for_want_of_memory(const struct report *r, const struct report_oom *o)
{
	return o->kind != OOM_DEATH || o->marked || o->killed || refusal_before(r, o);
}

static void add_module(struct sentence *s, const struct report_oom *o)
{
	char root[TEXT_BYTES_MAX], module[TEXT_BYTES_MAX];

	if (!o->module)
		return;
	text_fit(root, sizeof(root), o->root, 40);
	text_fit(module, sizeof(module), o->module, 60);
	sentence__add(s, ", in %s of %s%s%s", phase_name((enum phase)o->phase), root, module[0] ? "." : "", module);
}

static void put_what(struct page *p, const struct report *r, const struct report_oom *o)
{
	char when[24], asked[24], name[16], comm[TEXT_BYTES_MAX], op[TEXT_BYTES_MAX];
	struct sentence s = { 0 };

	text_fit(comm, sizeof(comm), o->comm, 30);
	fmt_ns(when, o->ts_ns >= r->run.start_ts_ns ? o->ts_ns - r->run.start_ts_ns : 0);
	if (o->kind == OOM_DEATH) {
		const struct report_oom *refused = refusal_before(r, o);
		int sig = WTERMSIG((int)o->exit_status);
		const char *abbrev = sigabbrev_np(sig);

		sentence__add(&s, "after %s process %u (%s) was ended by signal %d (%s)", when, o->pid, comm, sig,
			      abbrev ? abbrev : "?");
		if (o->marked || o->killed)
			sentence__add(&s, ": the kernel's OOM killer took %s", o->marked ? "it" : "a process then");
		if (refused)
			sentence__add(&s, ": %s before it was refused %s on %s", fmt_ns(when, o->ts_ns - refused->ts_ns),
				      fmt_bytes(asked, refused->asked), dev_name(refused->dev, name));
	} else {
		fmt_bytes(asked, o->asked);
		sentence__add(&s, "after %s process %u (%s) was refused %s on %s", when, o->pid, comm, asked,
			      dev_name(o->dev, name));
		if (o->api[0]) {
			text_fit(op, sizeof(op), o->api, 40);
			sentence__add(&s, " by %s (code %u)", op, o->code);
		}
		if (o->op[0]) {
			text_fit(op, sizeof(op), o->op, 60);
			sentence__add(&s, " in %s", op);
		}
		add_module(&s, o);
		if (o->times > 1)
			sentence__add(&s, ", %llu times", (unsigned long long)o->times);
	}
	page__put(p, "  ");
	page__style(p, STYLE_RED);
	page__flow(p, 2, s.text);
	page__style(p, STYLE_PLAIN);
}

static void put_had(struct page *p, const struct report_oom *o)
{
	char a[24], b[24], c[24];
	struct sentence s = { 0 };

	sentence__add(&s, "live then: %s", fmt_bytes(a, o->live));
	if (o->reserved)
		sentence__add(&s, "; reserved %s, of that free %s, largest free piece %s", fmt_bytes(a, o->reserved),
			      fmt_bytes(b, o->unused), fmt_bytes(c, o->largest_free));
	if (o->private_free)
		sentence__add(&s, ", %s for CUDA graphs alone", fmt_bytes(a, o->private_free));
	if (o->driver)
		sentence__add(&s, "; the driver had given %s", fmt_bytes(a, o->driver));
	if (o->rss_total)
		sentence__add(&s, "; RSS %s (anonymous %s, shared %s)", fmt_bytes(a, o->rss_total),
			      fmt_bytes(b, o->rss[MT_RSS_ANON]), fmt_bytes(c, o->rss[MT_RSS_SHMEM]));
	page__item(p, 2, s.text);
}

static void put_composition(struct page *p, const struct report_oom *o)
{
	char text[500], a[24], name[TEXT_BYTES_MAX];
	size_t n = 0;

	for (unsigned c = 1; c <= CAT_MAX; c++)
		if (o->cats[c % CAT_MAX])
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "by category: ",
					      category_name((enum category)(c % CAT_MAX)), fmt_bytes(a, o->cats[c % CAT_MAX]));
	if (n)
		page__item(p, 2, text);
	n = 0;
	for (size_t i = 0; i < o->ops_cnt && i < OPS_SHOWN; i++) {
		text_fit(name, sizeof(name), o->ops[i].name[0] ? o->ops[i].name : "(no operator)", 40);
		if (strlen(name) < sizeof(text) - n - 60)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "by operator: ", name,
					      fmt_bytes(a, o->ops[i].live));
	}
	if (n)
		page__item(p, 2, text);
}

static void put_segments(struct page *p, const struct report_oom *o)
{
	for (size_t i = 0; i < o->segs_cnt && i < SEGS_SHOWN; i++) {
		const struct report_seg_row *s = &o->segs[i];
		char text[200], a[24], b[24];

		snprintf(text, sizeof(text), "used %s by %u block%s, largest free %s, %s", fmt_bytes(a, s->used), s->blocks,
			 s->blocks == 1 ? "" : "s", fmt_bytes(b, s->largest_free), seg_kind_words(s->kind));
		page__put(p, i ? "           " : "  segments:");
		page__put(p, " ");
		page__cell(p, fmt_bytes(a, s->size), 10);
		page__cell(p, s->is_cached ? text : s->is_comm ? "communication" : seg_kind_words(s->kind), (int)p->width - 24);
		page__end_line(p);
	}
}

static void put_largest(struct page *p, const struct report_oom *o)
{
	for (size_t i = 0; i < o->blocks_cnt && i < BLOCKS_SHOWN; i++) {
		const struct report_block *b = &o->blocks[i];
		char made_by[2 * TEXT_BYTES_MAX], a[24], age[24];

		page__put(p, i ? "           " : "  largest: ");
		page__cell(p, fmt_bytes(a, b->size), 10);
		page__cell(p, category_name((enum category)(b->cat < CAT_MAX ? b->cat : CAT_UNKNOWN)), 17);
		snprintf(made_by, sizeof(made_by), "%s%s%s%s%s", b->op && b->op[0] ? b->op : "-", b->module ? " in " : "",
			 b->module ? b->root : "", b->module && b->module[0] ? "." : "", b->module ? b->module : "");
		page__cell(p, made_by, (int)p->width - 55);
		page__put(p, " age ");
		page__cell(p, o->ts_ns >= b->allocated_ts_ns ? fmt_ns(age, o->ts_ns - b->allocated_ts_ns) : "?", 11);
		page__end_line(p);
	}
}

void oom_text(struct page *p, const struct report *r)
{
	size_t shown = 0, about = 0, want = 0;

	for (size_t i = 0; i < r->ooms.cnt; i++) {
		about += (size_t)is_reported(&r->ooms.rows[i]);
		want += (size_t)(is_reported(&r->ooms.rows[i]) && is_for_want_of_memory(r, &r->ooms.rows[i]));
	}
	if (!about)
		return;
	page__heading(p, want ? "Out of memory" : "Ended by a signal");
	for (size_t i = r->ooms.cnt; i-- > 0;) {
		const struct report_oom *o = &r->ooms.rows[i];

		if (!is_reported(o))
			continue;
		put_what(p, r, o);
		if (shown++)
			continue;
		put_had(p, o);
		put_composition(p, o);
		put_segments(p, o);
		put_largest(p, o);
	}
	if (r->ooms.total > r->ooms.cnt)
		page__line(p, "  … and %llu more before", (unsigned long long)(r->ooms.total - r->ooms.cnt));
}

/* --- JSON --------------------------------------------------------------------------------------------- */

static void put_json_live(struct json *j, const struct report *r, const struct report_oom *o)
{
	struct drawn d = drawn_as(AS_JSON, r);

	json__begin_flat(j, "categories", '{');
	for (unsigned c = 0; c < CAT_MAX; c++)
		if (o->cats[c] || c == CAT_UNKNOWN)
			json__u64(j, category_name((enum category)c), o->cats[c]);
	json__end(j, '}');
	json__begin(j, "ops", '[');
	for (size_t i = 0; i < o->ops_cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__str_or_null(j, "name", o->ops[i].name);
		json__u64(j, "live", o->ops[i].live);
		json__end(j, '}');
	}
	json__end(j, ']');
	table__list(j, "blocks", &refused_table, &d, o->blocks, o->blocks_cnt, sizeof(o->blocks[0]));
	table__list(j, "segments", &segment_table, &d, o->segs, o->segs_cnt, sizeof(o->segs[0]));
}

static void put_json(struct json *j, const struct report *r, const struct report_oom *o)
{
	char name[16];

	json__begin(j, NULL, '{');
	json__str(j, "kind", oom_kinds[o->kind <= OOM_DEATH ? o->kind : 0]);
	json__u64(j, "t", o->ts_ns + (uint64_t)r->run.epoch_off_ns);
	json__u64(j, "pid", o->pid);
	json__u64(j, "tid", o->tid);
	json__str(j, "comm", o->comm);
	if (o->kind == OOM_DEATH) {
		json__u64(j, "signal", (uint64_t)WTERMSIG((int)o->exit_status));
		json__bool(j, "oom_killer", o->killed);
		json__bool(j, "oom_marked", o->marked);
		json__u64(j, "refused_before", refusal_before(r, o) ? refusal_before(r, o)->asked : 0);
	} else {
		json__str(j, "dev", dev_name(o->dev, name));
		json__u64(j, "asked", o->asked);
		json__u64(j, "times", o->times);
		json__str_or_null(j, "op", o->op);
		json__str_or_null(j, "region", o->region);
		json__str_or_null(j, "module", o->module);
		json__str_or_null(j, "module_root", o->root);
		json__str_or_null(j, "phase", o->module ? phase_name((enum phase)o->phase) : NULL);
		json__str_or_null(j, "api", o->api);
		json__u64(j, "code", o->code);
		json__u64(j, "allocated", o->allocated);
		json__u64(j, "reserved", o->reserved);
		json__u64(j, "free", o->unused);
		json__u64(j, "private_pools", o->private_free);
		json__u64(j, "largest_free", o->largest_free);
		json__u64(j, "driver", o->driver);
	}
	json__u64(j, "live", o->live);
	json__begin_flat(j, "rss", '{');
	json__u64(j, "total", o->rss_total);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		json__u64(j, rss_word(i), o->rss[i]);
	json__end(j, '}');
	put_json_live(j, r, o);
	json__end(j, '}');
}

void oom_json(struct json *j, const struct report *r)
{
	json__begin(j, "ooms", '[');
	for (size_t i = 0; i < r->ooms.cnt; i++)
		put_json(j, r, &r->ooms.rows[i]);
	json__end(j, ']');
	json__u64(j, "ooms_total", r->ooms.total);
}
