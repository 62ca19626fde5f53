/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "event/rank_label.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	uint8_t what, source;
} nums[] = {
	{ "RANK", RANK_GLOBAL, RANK_TORCH },
	{ "LOCAL_RANK", RANK_OF_NODE, RANK_TORCH },
	{ "WORLD_SIZE", RANK_WORLD, RANK_TORCH },
	{ "LOCAL_WORLD_SIZE", RANK_WORLD_OF_NODE, RANK_TORCH },
	{ "GROUP_RANK", RANK_NODE, RANK_TORCH },
	{ "NODE_RANK", RANK_NODE, RANK_TORCH },
	{ "GROUP_WORLD_SIZE", RANK_NODES, RANK_TORCH },
	{ "OMPI_COMM_WORLD_RANK", RANK_GLOBAL, RANK_MPI },
	{ "OMPI_COMM_WORLD_LOCAL_RANK", RANK_OF_NODE, RANK_MPI },
	{ "OMPI_COMM_WORLD_SIZE", RANK_WORLD, RANK_MPI },
	{ "OMPI_COMM_WORLD_LOCAL_SIZE", RANK_WORLD_OF_NODE, RANK_MPI },
	{ "SLURM_PROCID", RANK_GLOBAL, RANK_SLURM },
	{ "SLURM_LOCALID", RANK_OF_NODE, RANK_SLURM },
	{ "SLURM_NTASKS", RANK_WORLD, RANK_SLURM },
	{ "SLURM_NODEID", RANK_NODE, RANK_SLURM },
	{ "SLURM_NNODES", RANK_NODES, RANK_SLURM },
	{ "PMI_RANK", RANK_GLOBAL, RANK_PMI },
	{ "PMI_SIZE", RANK_WORLD, RANK_PMI },
	{ "HOROVOD_RANK", RANK_GLOBAL, RANK_HOROVOD },
	{ "HOROVOD_LOCAL_RANK", RANK_OF_NODE, RANK_HOROVOD },
	{ "HOROVOD_SIZE", RANK_WORLD, RANK_HOROVOD },
};

/* The first one that is given names the job. "none" is what torchrun calls a run without an id. */
static const char *const jobs[] = { "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "RAY_JOB_ID" };

static const char *value_of(const char *label, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(label, name, n) && label[n] == '=' ? label + n + 1 : NULL;
}

static int number(const char *text, uint32_t *ret)
{
	uint64_t v = 0;
	size_t n = 0;

	for (; text[n] >= '0' && text[n] <= '9' && n < 10; n++)
		v = v * 10 + (uint64_t)(text[n] - '0');
	if (!n || text[n] || v > INT32_MAX)
		return -1;
	*ret = (uint32_t)v;
	return 0;
}

static void add_number(struct rank_label *r, const char *label)
{
	const char *text;
	uint32_t v;

	for (size_t i = 0; i < sizeof(nums) / sizeof(nums[0]); i++) {
		uint8_t *from = &r->source[nums[i].what];

		text = value_of(label, nums[i].name);
		if (!text || (*from && *from < nums[i].source) || number(text, &v))
			continue;
		*from = nums[i].source;
		r->num[nums[i].what] = v;
	}
}

void rank_label__add(struct rank_label *r, const char *label)
{
	const char *text = value_of(label, "SLURMD_NODENAME");

	if (text)
		snprintf(r->node, sizeof(r->node), "%s", text);
	text = value_of(label, "MASTER_ADDR");
	if (text)
		snprintf(r->addr, sizeof(r->addr), "%s", text);
	text = value_of(label, "MASTER_PORT");
	if (text)
		snprintf(r->port, sizeof(r->port), "%.7s", text);
	for (uint8_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		text = value_of(label, jobs[i]);
		if (!text || !text[0] || !strcmp(text, "none") || (r->job_from && r->job_from <= i))
			continue;
		r->job_from = (uint8_t)(i + 1);
		snprintf(r->job, sizeof(r->job), "%s", text);
	}
	add_number(r, label);
}

enum rank_source rank_label__rank(const struct rank_label *r, uint32_t *ret)
{
	if (r->source[RANK_GLOBAL]) {
		*ret = r->num[RANK_GLOBAL];
		return (enum rank_source)r->source[RANK_GLOBAL];
	}
	if (!r->source[RANK_OF_NODE])
		return RANK_NONE;
	*ret = r->num[RANK_OF_NODE];
	return RANK_LOCAL;
}

void rank_label__name_job(struct rank_label *r, uint32_t launcher)
{
	size_t n = strlen(r->job);
	const char *gap = n ? " " : "";

	if (r->port[0])
		snprintf(r->job + n, sizeof(r->job) - n, "%s%.48s:%s", gap, r->addr, r->port);
	else
		snprintf(r->job + n, sizeof(r->job) - n, "%slauncher %u", gap, launcher);
}

int64_t rank_label__num(const struct rank_label *r, enum rank_num which)
{
	return r->source[which] ? (int64_t)r->num[which] : -1;
}
