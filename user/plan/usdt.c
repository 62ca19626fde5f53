/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * USDT probes: those of memtrace/usdt.h in any file, those of PyTorch's CUDA allocator, and those of --usdt.
 *
 * A probe's SDT note has the places of its arguments, this file their meaning; together they make a struct mt_usdt_spec, which
 * one BPF program interprets. Sites whose arguments have equal places share a spec.
 *
 * The probe is set only at the note's address. Up to 0.1 sites of memtrace/usdt.h had a five-byte nop after the nop that the
 * note names, and libbpf's usdt.h had the same for a while: that one is never taken. Linux 6.18 turns it into a call whose
 * return address overwrites what the surrounding function keeps below its stack pointer.
 *
 * pytorch:malloc and free are requests of torch.cuda's allocator: size as requested, before rounding. free has no device. Both
 * need the note's semaphore: without it the code jumps over the probe.
 */
#include "plan/usdt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "plan/builder.h"
#include "arch/arch.h"

#define NO USDT_NO_ARG
#define SITE_BYTES 32 /* the instruction of a site and the next one */

/* provider, name, kind, ptr, size, device, name (REQUEST: stream) */
static const struct usdt_pattern known[] = {
	{ "memtrace", "op_begin", MT_EV_OP_BEGIN, NO, NO, NO, 0 },
	{ "memtrace", "op_end", MT_EV_OP_END, NO, NO, NO, NO },
	{ "memtrace", "region_begin", MT_EV_REGION_BEGIN, NO, NO, NO, 0 },
	{ "memtrace", "region_end", MT_EV_REGION_END, NO, NO, NO, NO },
	{ "memtrace", "step", MT_EV_STEP, 0, NO, NO, NO },
	{ "memtrace", "alloc", MT_EV_ALLOC, 0, 1, 2, NO },
	{ "memtrace", "free", MT_EV_FREE, 0, NO, 1, NO },
	{ "memtrace", "tag", MT_EV_TAG, 0, NO, 2, 1 },
	/* requests; the blocks, with the requests of the allocator's own users, come from the framework's reports */
	{ "pytorch", "malloc", MT_EV_REQUEST, 0, 2, 1, 3 },
	{ "pytorch", "free", MT_EV_REQUEST_FREE, 0, NO, NO, NO },
	/* from here on: known meanings, but set only on request: every Python call is a hit */
	{ "python", "function__entry", MT_EV_OP_BEGIN, NO, NO, NO, 1 },
	{ "python", "function__return", MT_EV_OP_END, NO, NO, NO, NO },
};
#define KNOWN_CNT  (sizeof(known) / sizeof(*known))
#define ALWAYS_CNT (KNOWN_CNT - 2)

size_t usdt_patterns_known(const struct usdt_pattern **ret)
{
	*ret = known;
	return ALWAYS_CNT;
}

/* --- --usdt ------------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	uint8_t kind;
} kinds[] = {
	{ "alloc", MT_EV_ALLOC },
	{ "free", MT_EV_FREE },
	{ "op_begin", MT_EV_OP_BEGIN },
	{ "op_end", MT_EV_OP_END },
	{ "region_begin", MT_EV_REGION_BEGIN },
	{ "region_end", MT_EV_REGION_END },
	{ "step", MT_EV_STEP },
	{ "tag", MT_EV_TAG },
};

static int bad(struct err *err, const char *text, const char *why, const char *what)
{
	err_set(err, -EINVAL, "--usdt \"%.100s\": %s%.60s", text, why, what);
	err_hint(err, "PROVIDER:NAME[:ARG=meaning,...], meaning one of ptr, size, device, name, step; also "
		      "event=alloc, free, op_begin ... (example: mylib:got:0=ptr,1=size,event=alloc)");
	return -EINVAL;
}

static int copy_part(char *to, const char *from, size_t len)
{
	if (!len || len >= USDT_NAME_MAX)
		return -EINVAL;
	memcpy(to, from, len);
	to[len] = '\0';
	return 0;
}

static int set_event(struct usdt_pattern *p, const char *value)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(value, kinds[i].name)) {
			p->kind = kinds[i].kind;
			return 0;
		}
	return -EINVAL;
}

static int set_meaning(struct usdt_pattern *p, const char *key, const char *value, int *is_step)
{
	int8_t *slot = NULL;
	char *end;
	long n = strtol(key, &end, 10);

	if (*end || *key < '0' || *key > '9' || n >= SDT_ARGS_MAX)
		return -ERANGE;
	if (!strcmp(value, "ptr") || !strcmp(value, "step"))
		slot = &p->ptr;
	else if (!strcmp(value, "size"))
		slot = &p->size;
	else if (!strcmp(value, "device"))
		slot = &p->device;
	else if (!strcmp(value, "name"))
		slot = &p->text;
	if (!slot || *slot != NO)
		return -EINVAL;
	*slot = (int8_t)n;
	*is_step |= !strcmp(value, "step");
	return 0;
}

/* The kind that the arguments alone suggest; 0 = none. */
static uint8_t infer_kind(const struct usdt_pattern *p, int is_step)
{
	if (is_step)
		return MT_EV_STEP;
	if (p->ptr != NO)
		return p->size != NO ? MT_EV_ALLOC : p->text != NO ? MT_EV_TAG : MT_EV_FREE;
	return p->text != NO ? MT_EV_REGION_BEGIN : 0;
}

static const char *what_lacks(const struct usdt_pattern *p)
{
	int has_ptr = p->ptr != NO;

	switch (p->kind) {
	case MT_EV_ALLOC:
	case MT_EV_REQUEST: return !has_ptr ? "ptr" : p->size == NO ? "size" : NULL;
	case MT_EV_REQUEST_FREE:
	case MT_EV_FREE: return !has_ptr ? "ptr" : NULL;
	case MT_EV_OP_BEGIN:
	case MT_EV_REGION_BEGIN: return p->text == NO ? "name" : NULL;
	case MT_EV_STEP: return !has_ptr ? "step" : NULL;
	case MT_EV_TAG: return !has_ptr ? "ptr" : p->text == NO ? "name" : NULL;
	default: return NULL;
	}
}

/* ARG=meaning,… ; cut in place. */
static int parse_meanings(char *list, const char *text, struct usdt_pattern *p, struct err *err)
{
	int is_step = 0, r;
	char *save = NULL;

	for (char *item = strtok_r(list, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(item, '=');

		if (!eq)
			return bad(err, text, "no '=' in ", item);
		*eq++ = '\0';
		if (!strcmp(item, "event")) {
			if (set_event(p, eq) < 0)
				return bad(err, text, "there is no event ", eq);
			continue;
		}
		r = set_meaning(p, item, eq, &is_step);
		if (r == -ERANGE)
			return bad(err, text, "not the number of an argument (the first is 0): ", item);
		if (r < 0)
			return bad(err, text, "no meaning of an argument, or given twice: ", eq);
	}
	if (is_step && p->kind && p->kind != MT_EV_STEP)
		return bad(err, text, "only event=step has a ", "step");
	if (!p->kind)
		p->kind = infer_kind(p, is_step);
	return 0;
}

static const struct usdt_pattern *find_known(const struct usdt_pattern *p)
{
	for (size_t i = 0; i < KNOWN_CNT; i++)
		if (!strcmp(known[i].provider, p->provider) && !strcmp(known[i].name, p->name))
			return &known[i];
	return NULL;
}

int usdt_pattern_parse(const char *text, struct usdt_pattern *ret, struct err *err)
{
	struct usdt_pattern p = { .ptr = NO, .size = NO, .device = NO, .text = NO };
	const char *colon = strchr(text, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
	const char *name_end = second ? second : text + strlen(text), *lack;
	char list[256];
	int r;

	if (!colon || copy_part(p.provider, text, (size_t)(colon - text)) < 0 ||
	    copy_part(p.name, colon + 1, (size_t)(name_end - colon - 1)) < 0)
		return bad(err, text, "it needs a provider and a name, of at most 63 bytes each", "");
	if (second && strlen(second + 1)) {
		if (strlen(second + 1) >= sizeof(list))
			return bad(err, text, "too long", "");
		strcpy(list, second + 1);
		r = parse_meanings(list, text, &p, err);
		if (r < 0)
			return r;
	} else if (find_known(&p)) {
		p = *find_known(&p);
	}
	if (!p.kind)
		return bad(err, text, "what its arguments mean is not known: say it", "");
	lack = what_lacks(&p);
	if (lack)
		return bad(err, text, "this event needs an argument that means ", lack);
	p.is_users = 1;
	*ret = p;
	return 0;
}

/* --- sites ------------------------------------------------------------------------------------------- */

/* Puts argument nr into *slot. 0 when it is wanted and not available. */
static int take_arg(int nr, const struct mt_usdt_arg *args, int cnt, struct mt_usdt_arg *slot)
{
	if (nr == NO)
		return 1;
	if (nr >= cnt || args[nr].form == MT_ARG_NONE)
		return 0;
	*slot = args[nr];
	return 1;
}

int usdt__add_spec(struct plan *plan, const struct mt_usdt_spec *spec)
{
	for (size_t i = 0; i < plan->specs_cnt; i++)
		if (!memcmp(&plan->specs[i], spec, sizeof(*spec)))
			return (int)i;
	if (plan->specs_cnt == MT_USDT_SPECS_MAX)
		return -ENOSPC;
	if (!array_has_one_more(plan->specs, plan->specs_cnt))
		return -ENOMEM;
	plan->specs[plan->specs_cnt] = *spec;
	return (int)plan->specs_cnt++;
}

static int make_spec(struct builder *b, const struct usdt_pattern *p, const struct sdt_note *note)
{
	struct mt_usdt_arg args[SDT_ARGS_MAX];
	int cnt = sdt_args_parse(note->args, args);
	struct mt_usdt_spec spec;

	memset(&spec, 0, sizeof(spec));
	spec.kind = p->kind;
	if (cnt < 0 || !take_arg(p->ptr, args, cnt, &spec.ptr) ||
	    !take_arg(p->size, args, cnt, &spec.size) || !take_arg(p->device, args, cnt, &spec.device) ||
	    !take_arg(p->text, args, cnt, &spec.name)) {
		builder__note(
			b,
			"%s: a site of %s:%s is left out: memtrace cannot get at its arguments \"%.80s\"",
			b->lib->base, p->provider, p->name, note->args);
		return -ENOENT;
	}
	return usdt__add_spec(b->plan, &spec);
}

static int add_site(struct builder *b, struct usdt_pattern *p, const struct sdt_note *note)
{
	struct site site = { .prog = MT_PROG_USDT,
			     .source = SRC_USDT,
			     .ref_ctr_offset = note->semaphore_offset };
	struct prologue_site at;
	char sym[2 * USDT_NAME_MAX];
	const uint8_t *code;
	size_t len;
	int spec, r;

	snprintf(sym, sizeof(sym), "%s:%s", p->provider, p->name);
	code = elf__bytes(b->elf, note->pc_offset, SITE_BYTES, &len);
	r = code ? prologue_at(code, len, note->pc_offset, &b->classes, &at) : -EINVAL;
	if (r == -ENOTSUP) {
		p->left_out++;
		builder__leave_out(b, sym);
	}
	if (r < 0)
		return 0;
	spec = make_spec(b, p, note);
	if (spec == -ENOENT)
		return 0;
	if (spec == -ENOSPC)
		builder__note(b, "%s: more than %d different USDT sites; the rest is not watched",
			      b->lib->base, MT_USDT_SPECS_MAX);
	if (spec < 0)
		return spec == -ENOSPC ? 0 : spec;
	builder__fill(b, &at, note->pc_offset, &site);
	site.cookie = (uint64_t)spec;
	p->sites++;
	return builder__add_site(b, &site, sym);
}

static int plan_note(void *ctx, const struct sdt_note *note)
{
	struct builder *b = ctx;

	for (size_t i = 0; i < b->patterns_cnt; i++) {
		struct usdt_pattern *p = &b->patterns[i];

		if (!strcmp(p->name, note->name) && !strcmp(p->provider, note->provider))
			return add_site(b, p, note);
	}
	return 0;
}

int usdt__plan_lib(struct builder *b)
{
	return elf__each_sdt_note(b->elf, plan_note, b);
}

void usdt__cover(struct builder *b)
{
	uint32_t wanted = 0, found = 0;

	for (size_t i = 0; i < b->patterns_cnt; i++) {
		const struct usdt_pattern *p = &b->patterns[i];

		wanted += p->is_users || p->sites || p->left_out;
		found += p->sites != 0;
		if (p->is_users && !p->sites && !p->left_out)
			builder__note(b, "no library mapped now has the USDT probe %s:%s", p->provider,
				      p->name);
	}
	builder__cover(b, SRC_USDT, wanted, found);
}
