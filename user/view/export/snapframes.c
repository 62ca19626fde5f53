/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/snapframes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "view/report_words.h"

static const char *const words[] = {
	"action", "addr", "size", "stream", "time_us", "category", "frames", "filename", "line", "name", "alloc",
	"free_requested", "free_completed", "oom", "snapshot", "device_free", "operator", "region", "process", "segments",
	"device_traces", "allocator_settings", "external_annotations", "device", "address", "total_size",
	"allocated_size", "active_size", "requested_size", "segment_type", "large", "segment_pool_id", "is_expandable",
	"blocks", "state", "active_allocated", "inactive", "recorder", ("memtrace " MT_VERSION), "devices", "left_out",
	"module", "annotate", "user_metadata", "host_segments", "host_traces", "segment_alloc", "segment_free",
	"stage", "MARK", "START", "END", "number", "fw_start", "fw_bw_boundary", "step",
};
_Static_assert(sizeof(words) / sizeof(words[0]) == W_CATS, "a word for each");

static const char *const cat_words[] = {
	"unknown", "parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail",
	"frozen", "buffer", "dataloader", "communication", "workspace", "unsharded",
};
_Static_assert(sizeof(cat_words) / sizeof(cat_words[0]) == CAT_MAX, "a word for each");

/* --- words ----------------------------------------------------------------------------------------- */

void snap_key(struct snapwrite *w, enum word k)
{
	snapwrite__key(w, words[k], k);
}

void snap_word(struct snapwrite *w, enum word k, enum word v)
{
	snap_key(w, k);
	snapwrite__word(w, words[v], v);
}

void snap_u64(struct snapwrite *w, enum word k, uint64_t v)
{
	snap_key(w, k);
	snapwrite__u64(w, v);
}

void snap_cat(struct snapwrite *w, uint8_t cat)
{
	snap_key(w, W_CATEGORY);
	snapwrite__word(w, cat_words[cat], W_CATS + cat);
}

static void put_recorded_frame(struct snapframes *f, struct snapwrite *w, const struct ev_frame *frame)
{
	snapwrite__open(w, '{');
	snap_key(w, W_FILENAME);
	snapwrite__text(w, names__get(f->names, frame->file), names__len(f->names, frame->file));
	snap_u64(w, W_LINE, frame->line);
	snap_key(w, W_NAME);
	if (frame->kind == EV_FRAME_CUT)
		snapwrite__text(w, "(not known)", strlen("(not known)"));
	else
		snapwrite__text(w, names__get(f->names, frame->function), names__len(f->names, frame->function));
	snapwrite__close(w, '}');
}

static void put_frame(struct snapframes *f, struct snapwrite *w, const struct stack_node *n)
{
	char pid[24];
	name_id name = { n->value };

	if (n->kind >= STACK_PYTHON) {
		put_recorded_frame(f, w, stacks__frame(f->stacks, n));
		return;
	}
	snapwrite__open(w, '{');
	snap_word(w, W_FILENAME, n->kind == STACK_OP ? W_OPERATOR : n->kind == STACK_PROCESS ? W_PROCESS : W_REGION);
	snap_u64(w, W_LINE, 0);
	snap_key(w, W_NAME);
	if (n->kind == STACK_PROCESS)
		snapwrite__text(w, pid, (size_t)snprintf(pid, sizeof(pid), "%u", n->value));
	else
		snapwrite__text(w, names__get(f->names, name), names__len(f->names, name));
	snapwrite__close(w, '}');
}

/* A frame that is no place in a program: the name `a b` (either may be none) as a function of the file `file`. */
static void put_named_frame(struct snapframes *f, struct snapwrite *w, const char *file, name_id a, char between, name_id b)
{
	char text[2 * NAME_BYTES_MAX + 2];
	const char *first = a.v ? names__get(f->names, a) : "", *second = b.v ? names__get(f->names, b) : "";
	int n = snprintf(text, sizeof(text), "%s%.*s%s", first, first[0] && second[0], &between, second);

	snapwrite__open(w, '{');
	snap_key(w, W_FILENAME);
	snapwrite__text(w, file, strlen(file));
	snap_u64(w, W_LINE, 0);
	snap_key(w, W_NAME);
	snapwrite__text(w, text, (size_t)n);
	snapwrite__close(w, '}');
}

void snapframes__put(struct snapframes *f, struct snapwrite *w, uint32_t number)
{
	static const struct where none;
	const struct where *from = number ? &f->where[number - 1] : &none;
	uint32_t thing = W_MAX + 2 * number;
	int has_module = !from->root.v;

	snap_key(w, W_FRAMES);
	if (snapwrite__again(w, thing))
		return;
	snapwrite__open(w, '[');
	if (from->path.v)
		put_named_frame(f, w, tensor_kind_key(from->kind), from->key, ' ', from->path);
	for (uint32_t at = from->stack; at; at = stacks__node(f->stacks, at)->parent) {
		if (!has_module && !stacks__node(f->stacks, stacks__node(f->stacks, at)->parent)->depth) {
			put_named_frame(f, w, words[W_MODULE], from->root, '.', from->module);
			has_module = 1;
		}
		put_frame(f, w, stacks__node(f->stacks, at));
	}
	if (!has_module)
		put_named_frame(f, w, words[W_MODULE], from->root, '.', from->module);
	snapwrite__close(w, ']');
	snapwrite__remember(w, thing);
}

static void add_line(char *text, size_t size, const char *key, const char *a, const char *between, const char *b)
{
	size_t len = strlen(text);

	if (len < size)
		snprintf(text + len, size - len, "%s%s: %s%s%s", len ? "; " : "", key, a, a[0] && b[0] ? between : "", b);
}

void snapframes__metadata(struct snapframes *f, struct snapwrite *w, uint32_t number, uint8_t cat)
{
	const struct where *from = number ? &f->where[number - 1] : NULL;
	uint32_t thing = W_MAX + 2 * number + 1;
	char text[4 * NAME_BYTES_MAX + 64] = "";

	if (cat == CAT_MAX && (!from || (!from->path.v && !from->root.v)))
		return;
	snap_key(w, W_USER_METADATA);
	if (cat == CAT_MAX && snapwrite__again(w, thing))
		return;
	if (cat < CAT_MAX)
		add_line(text, sizeof(text), "category", cat_words[cat], "", "");
	if (from && from->path.v)
		add_line(text, sizeof(text), "name", names__get(f->names, from->key), " ", names__get(f->names, from->path));
	if (from && from->root.v)
		add_line(text, sizeof(text), "module", names__get(f->names, from->root), ".",
			 names__get(f->names, from->module));
	snapwrite__text(w, text, strlen(text));
	if (cat == CAT_MAX)
		snapwrite__remember(w, thing);
}

int snapframes__is_named(const struct snapframes *f, uint32_t number)
{
	return number && f->where[number - 1].path.v;
}

uint32_t snapframes__number(struct snapframes *f, const struct where *from)
{
	uint64_t place = (uint64_t)from->stack << 40 | (uint64_t)from->module.v << 20 | from->root.v, name;
	uint32_t number;
	int is_new;

	if (!from->stack && !from->root.v && !from->path.v)
		return 0;
	place = numbering__get(&f->places, place, &is_new);
	name = (uint64_t)from->kind << 40 | (uint64_t)from->key.v << 20 | from->path.v;
	number = numbering__get(&f->wheres, place << 43 | name, &is_new);
	if (number >= f->where_room) {
		uint32_t room = 2 * number + 256;
		struct where *more = realloc(f->where, room * sizeof(*more));

		if (!more)
			return 0;
		f->where = more;
		f->where_room = room;
	}
	if (is_new)
		f->where[number] = number < NUMBERING_MAX - 1 && place < NUMBERING_MAX - 1 ? *from : (struct where){ 0 };
	return number + 1;
}

uint32_t snapframes__of(struct snapframes *f, uint64_t id, const struct tl_event *ev)
{
	struct where from = { 0 };
	struct labels_name n;

	if (ev) {
		from.stack = stacks__at(f->stacks, ev);
		from.module = ev->root.v ? ev->module : NAME_NONE;
		from.root = ev->root;
	}
	if (f->labels && labels__name(f->labels, id, &n)) {
		from.path = n.path;
		from.key = n.key;
		from.kind = (uint8_t)n.kind;
	}
	return snapframes__number(f, &from);
}

void snapframes__done(struct snapframes *f)
{
	stacks__free(f->stacks);
	numbering__done(&f->places);
	numbering__done(&f->wheres);
	free(f->where);
}
