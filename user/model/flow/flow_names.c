/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The class of a frame or region by its name: enum op_class, looked up once a name. */
#include <stdlib.h>
#include <string.h>

#include "base/regions.h"
#include "model/flow/flow_state.h"

/*
 * Nodes whose formula (derivatives.yaml, PyTorch 2.13) makes views of the incoming gradient and does no more. Operators
 * that only make views have no probe by default, and without one such a node would count as writing its inputs.
 */
static bool is_view_node(const char *name)
{
	static const char *const nodes[] = { "T", "Transpose", "View", "UnsafeView", "ReshapeAlias", "Permute", "Squeeze",
					     "Unsqueeze", "ViewAsReal", "ViewAsComplex", "Conj", "NegView", "Cat",
					     "Stack", "Sum" };
	const char *end = strstr(name, "Backward");

	for (size_t i = 0; end && i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (strlen(nodes[i]) == (size_t)(end - name) && !strncmp(nodes[i], name, (size_t)(end - name)))
			return true;
	return false;
}

static uint8_t class_of_name(const char *name)
{
	static const struct {
		const char *prefix;
		uint8_t class;
	} known[] = {
		{ "torch::autograd::AccumulateGrad", OPC_ACC_NODE },
		{ REGION_LOADER "#_MultiProcessing", OPC_WORKERS_REGION },
		{ REGION_LOADER, OPC_LOADER_REGION },
		{ "DistributedDataParallel.forward", OPC_DDP_REGION },
		{ "aten::_chunk_cat", OPC_CHUNK_CAT },
		{ "FSDP::pre_forward", OPC_UNSHARD_REGION },
		{ "FSDP::pre_backward", OPC_UNSHARD_REGION },
		{ "FSDP::backward_prefetch", OPC_UNSHARD_REGION },
		{ "FSDP::all_gather_copy_out", OPC_UNSHARD_REGION },
		{ "FSDP::all_gather", OPC_GATHER_REGION },
		{ "FSDP::post_backward_reduce", OPC_REDUCE_REGION },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(name, known[i].prefix, strlen(known[i].prefix)))
			return known[i].class;
	return OPC_OTHER;
}

static uint8_t classify(const char *name)
{
	static const struct {
		const char *name;
		uint8_t class;
	} known[] = {
		{ "aten::detach", OPC_DETACH_ADD }, { "aten::add_", OPC_DETACH_ADD },
		{ "aten::zeros_like", OPC_FACTORY }, { "aten::full_like", OPC_FACTORY },
		{ "aten::empty_like", OPC_FACTORY }, { "aten::empty", OPC_FACTORY },
		{ "aten::zeros", OPC_FACTORY },	     { "aten::clone", OPC_FACTORY },
		{ "autograd node", OPC_PY_NODE },   { "aten::set_", OPC_TAKEOVER },
		{ "aten::_sparse_coo_tensor_unsafe", OPC_SPARSE },
		{ "aten::_has_compatible_shallow_copy_type", OPC_TAKEOVER },
	};
	size_t len = strcspn(name, ".");

	if (region_is_step(name))
		return OPC_STEP_REGION;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].name) == len && !memcmp(known[i].name, name, len))
			return known[i].class;
	return is_view_node(name) ? OPC_VIEW_NODE : class_of_name(name);
}

uint8_t graph__class(struct graph *g, name_id name)
{
	if (name.v >= NAMES_MAX)
		return OPC_OTHER;
	if (name.v >= g->classes_cnt) {
		size_t cnt = g->classes_cnt ? g->classes_cnt : 1024;
		uint8_t *c;

		while (cnt <= name.v)
			cnt *= 2;
		c = realloc(g->classes, cnt);
		if (!c)
			return OPC_OTHER;
		memset(c + g->classes_cnt, OPC_UNKNOWN, cnt - g->classes_cnt);
		g->classes = c;
		g->classes_cnt = cnt;
	}
	if (g->classes[name.v] == OPC_UNKNOWN)
		g->classes[name.v] = classify(names__get(g->env.names, name));
	return g->classes[name.v];
}
