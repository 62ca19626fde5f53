/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/free.h"

#define PRIMAL "primals"

/* --- rows ------------------------------------------------------------------------------------------------ */

/* Room for `more` further items of `size` bytes, at most `max` in all. */
static int grow(void *array, size_t cnt, size_t *cap, size_t more, size_t max, size_t size)
{
	size_t want = *cap ? *cap : 64;
	void *grown;

	if (cnt + more <= *cap)
		return 0;
	if (cnt + more > max)
		return -E2BIG;
	while (want < cnt + more)
		want *= 2;
	want = want < max ? want : max;
	grown = realloc(*(void **)array, want * size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*cap = want;
	return 0;
}

int est_doc__init(struct est_doc *d)
{
	*d = (struct est_doc){ .words = names__new() };
	return d->words ? 0 : -ENOMEM;
}

void est_doc__done(struct est_doc *d)
{
	for (size_t i = 0; i < d->graphs_cnt; i++)
		free_all(d->graphs[i].nodes, d->graphs[i].ins, d->graphs[i].outs, d->graphs[i].schedule);
	for (size_t i = 0; i < d->devs_cnt; i++)
		free(d->dev_names[i]);
	free_all(d->bytes, d->devs, d->text, d->torch);
	names__free(d->words);
	*d = (struct est_doc){ 0 };
}

int est_doc__graph(struct est_doc *d, struct est_graph **ret)
{
	if (d->graphs_cnt == EST_GRAPHS_MAX)
		return -E2BIG;
	*ret = &d->graphs[d->graphs_cnt++];
	return 0;
}

int est_doc__node(struct est_doc *d, struct est_graph *g, const struct est_node *node, const char *name, size_t len)
{
	int r = grow(&g->nodes, g->nodes_cnt, &g->nodes_cap, 1, EST_NODES_MAX, sizeof(*g->nodes));
	struct est_node *n;

	if (!r)
		r = grow(&d->text, d->text_len, &d->text_cap, len + 1, EST_TEXT_MAX, 1);
	if (r < 0)
		return r;
	n = &g->nodes[g->nodes_cnt++];
	*n = *node;
	n->name = (uint32_t)d->text_len;
	n->in_end = (uint32_t)g->ins_cnt;
	n->out_end = (uint32_t)g->outs_cnt;
	memcpy(d->text + d->text_len, name, len);
	d->text[d->text_len + len] = '\0';
	d->text_len += len + 1;
	n->is_primal = len >= strlen(PRIMAL) && !memcmp(name, PRIMAL, strlen(PRIMAL));
	return 0;
}

static int add_ref(uint32_t **array, size_t *cnt, size_t *cap, uint32_t ref)
{
	int r = grow(array, *cnt, cap, 1, EST_EDGES_MAX, sizeof(**array));

	if (!r)
		(*array)[(*cnt)++] = ref;
	return r;
}

int est_graph__in(struct est_graph *g, uint32_t node)
{
	return add_ref(&g->ins, &g->ins_cnt, &g->ins_cap, node);
}

int est_graph__out(struct est_graph *g, uint32_t storage)
{
	return add_ref(&g->outs, &g->outs_cnt, &g->outs_cap, storage);
}

int est_graph__next(struct est_graph *g, uint32_t node)
{
	g->has_schedule = 1;
	return add_ref(&g->schedule, &g->schedule_cnt, &g->schedule_cap, node);
}

int est_doc__device(struct est_doc *d, const char *name, size_t len)
{
	if (d->devs_cnt == EST_DEVS_MAX)
		return -E2BIG;
	d->dev_names[d->devs_cnt] = strndup(name, len);
	if (!d->dev_names[d->devs_cnt])
		return -ENOMEM;
	d->devs_cnt++;
	return 0;
}

int est_doc__storage(struct est_doc *d, uint64_t bytes, uint16_t dev)
{
	int r = grow(&d->bytes, d->storages_cnt, &d->bytes_cap, 1, EST_STORAGES_MAX, sizeof(*d->bytes));

	if (!r)
		r = grow(&d->devs, d->storages_cnt, &d->devs_cap, 1, EST_STORAGES_MAX, sizeof(*d->devs));
	if (r < 0)
		return r;
	d->bytes[d->storages_cnt] = bytes;
	d->devs[d->storages_cnt++] = dev;
	return 0;
}

const struct est_graph *est_doc__find(const struct est_doc *d, const char *name)
{
	for (size_t i = 0; i < d->graphs_cnt; i++)
		if (!strcmp(names__get(d->words, d->graphs[i].name), name))
			return &d->graphs[i];
	return NULL;
}

/* --- references ------------------------------------------------------------------------------------------------ */

struct refs {
	struct est_doc *d;
	struct est_graph *g;
	uint32_t *seen_node, *seen_storage; /* the last node that named it, + 1 */
	struct err *err;
};

/* "graph 'forward', node 12 'add' (line 40)" before a message. */
static int refuse(struct refs *f, uint32_t node, const char *what, uint32_t ref, size_t cnt)
{
	const struct est_node *n = &f->g->nodes[node];
	char line[32] = "";

	if (n->line)
		snprintf(line, sizeof(line), " (line %u)", n->line);
	return err_set(f->err, -EINVAL, "graph '%.60s', node %u '%.100s'%s: %s %u, and there are %zu",
		       names__get(f->d->words, f->g->name), node, est_doc__name(f->d, n), line, what, ref, cnt);
}

static int check_in(struct refs *f, uint32_t node, uint32_t in)
{
	const struct est_node *n = &f->g->nodes[node];

	if (in < node)
		return 0;
	if (in >= f->g->nodes_cnt)
		return refuse(f, node, "its input is node", in, f->g->nodes_cnt);
	err_set(f->err, -EINVAL, "graph '%.60s', node %u '%.80s' (line %u): its input, node %u '%.80s', %s",
		names__get(f->d->words, f->g->name), node, est_doc__name(f->d, n), n->line, in,
		est_doc__name(f->d, &f->g->nodes[in]), in == node ? "is itself" : "comes after it");
	return err_hint(f->err, "nodes stand in the order in which they run: a graph with a cycle has none");
}

/* Closes the gaps that a reference named twice leaves. */
static int graph_finish(struct refs *f)
{
	uint32_t in_at = 0, out_at = 0, in_from = 0, out_from = 0;
	struct est_graph *g = f->g;
	int r = 0;

	for (uint32_t i = 0; i < g->nodes_cnt && !r; i++) {
		struct est_node *n = &g->nodes[i];

		for (; in_from < n->in_end && !(r = check_in(f, i, g->ins[in_from])); in_from++)
			if (f->seen_node[g->ins[in_from]] != i + 1) {
				f->seen_node[g->ins[in_from]] = i + 1;
				g->ins[in_at++] = g->ins[in_from];
			}
		for (; out_from < n->out_end && !r; out_from++) {
			uint32_t s = g->outs[out_from];

			if (s >= f->d->storages_cnt) {
				r = refuse(f, i, "it makes storage", s, f->d->storages_cnt);
			} else if (f->seen_storage[s] != i + 1) {
				f->seen_storage[s] = i + 1;
				g->outs[out_at++] = s;
			}
		}
		n->in_end = in_at;
		n->out_end = out_at;
	}
	g->ins_cnt = in_at;
	g->outs_cnt = out_at;
	for (size_t i = 0; i < g->schedule_cnt && !r; i++)
		if (g->schedule[i] >= g->nodes_cnt)
			r = err_set(f->err, -EINVAL, "graph '%.60s': its schedule has node %u, and there are %zu",
				    names__get(f->d->words, g->name), g->schedule[i], g->nodes_cnt);
	return r;
}

static int sizes_finish(const struct est_doc *d, struct err *err)
{
	uint64_t total = 0;
	size_t outs = 0;

	for (size_t i = 0; i < d->storages_cnt; i++)
		total += d->bytes[i];
	for (size_t i = 0; i < d->storages_cnt; i++)
		if (d->devs[i] >= d->devs_cnt)
			return err_set(err, -EINVAL, "storage %zu is on device %u, and there are %zu", i, d->devs[i],
				       d->devs_cnt);
	if (total > EST_TOTAL_MAX)
		return err_set(err, -EINVAL, "all storages together have %llu bytes, which cannot be",
			       (unsigned long long)total);
	for (size_t i = 0; i < d->graphs_cnt; i++)
		outs += d->graphs[i].outs_cnt;
	if (outs)
		return 0;
	err_set(err, -ENODATA, d->graphs_cnt ? "the graphs have no sizes: no node has outputs" : "the document has no graph");
	return err_hint(err, "python -m memtrace.graph writes them; a graph of torch.fx has sizes where it was traced with "
			     "fake tensors (meta[\"val\"])");
}

int est_doc__finish(struct est_doc *d, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < d->graphs_cnt && !r; i++) {
		struct refs f = { .d = d, .g = &d->graphs[i], .err = err };

		f.seen_node = calloc(f.g->nodes_cnt + 1, sizeof(*f.seen_node));
		f.seen_storage = calloc(d->storages_cnt + 1, sizeof(*f.seen_storage));
		r = f.seen_node && f.seen_storage ? graph_finish(&f) : err_set(err, -ENOMEM, "out of memory");
		free(f.seen_node);
		free(f.seen_storage);
	}
	return r ? r : sizes_finish(d, err);
}
