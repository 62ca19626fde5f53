/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The values of estimate's options. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/options_table.h"
#include "cmd/values.h"
#include "estimate/whatif.h"

int on_batch(struct options *o, const char *value, struct err *err)
{
	int r = parse_number(value, UINT32_MAX, &o->batch, err);

	return !r && !o->batch ? err_set(err, -EINVAL, "no batch at all") : r;
}

/* "16" or "16,32" */
int on_batches(struct options *o, const char *value, struct err *err)
{
	const char *comma = strchr(value, ',');
	char first[24];

	snprintf(first, sizeof(first), "%.*s", (int)(comma ? comma - value : 23), value);
	if (!parse_number(first, UINT32_MAX, &o->batches[0], NULL) && o->batches[0] &&
	    (!comma || (!parse_number(comma + 1, UINT32_MAX, &o->batches[1], NULL) && o->batches[1] &&
			o->batches[0] != o->batches[1])))
		return 0;
	err_set(err, -EINVAL, "'%.60s' is not one batch or two different ones", value);
	return err_hint(err, "that of the first recording and that of the second: --batches 16,32");
}

int on_budget(struct options *o, const char *value, struct err *err)
{
	int r = parse_size(value, &o->budget, err);

	return !r && !o->budget ? err_set(err, -EINVAL, "a budget of no bytes holds nothing") : r;
}

int on_optimizer(struct options *o, const char *value, struct err *err)
{
	static const char *const words[] = { [WHATIF_SGD] = "sgd", [WHATIF_MOMENTUM] = "momentum", [WHATIF_ADAMW] = "adamw",
					     [WHATIF_8BIT] = "8bit" };

	for (size_t i = WHATIF_SGD; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(value, words[i])) {
			o->optimizer = (int)i;
			o->optimizer_name = words[i];
			return 0;
		}
	err_set(err, -EINVAL, "unknown optimizer '%.60s'", value);
	return err_hint(err, "sgd, momentum, adamw or 8bit");
}

int on_dtype(struct options *o, const char *value, struct err *err)
{
	o->dtype = !strcmp(value, "bf16") || !strcmp(value, "fp16") ? 0.5 : 0;
	if (o->dtype > 0)
		return 0;
	err_set(err, -EINVAL, "unknown dtype '%.60s'", value);
	return err_hint(err, "bf16 or fp16, of what was recorded in float32");
}

int on_shard(struct options *o, const char *value, struct err *err)
{
	int r = parse_number(value, SHARD_RANKS_MAX, &o->ranks, err);

	return !r && !o->ranks ? err_set(err, -EINVAL, "no rank at all") : r;
}

int on_units(struct options *o, const char *value, struct err *err)
{
	(void)err;
	o->units = value;
	return 0;
}

int on_checkpoint(struct options *o, const char *value, struct err *err)
{
	(void)err;
	o->checkpoint = value;
	return 0;
}

int on_no_reshard(struct options *o, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	o->no_reshard = 1;
	return 0;
}

int on_count(struct options *o, const char *value, struct err *err)
{
	(void)err;
	o->count = value;
	return 0;
}
