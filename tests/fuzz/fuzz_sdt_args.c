/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any text as the arguments of an SDT note and as --usdt: what comes out is safe for BPF to interpret. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "plan/usdt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_arg(const struct mt_usdt_arg *a)
{
	int has_base = a->form == MT_ARG_REG || a->form == MT_ARG_MEM;

	require(a->form <= MT_ARG_MEM && a->pad == 0);
	if (a->form == MT_ARG_NONE)
		return;
	require(a->bytes == 1 || a->bytes == 2 || a->bytes == 4 || a->bytes == 8);
	require(a->is_signed <= 1 && (a->shift == 0 || (a->shift == 8 && a->form == MT_ARG_REG)));
	require(has_base ? a->reg <= MT_REG_R15 : a->reg == MT_REG_NONE);
	require(a->index == MT_REG_NONE || (a->form == MT_ARG_MEM && a->index <= MT_REG_R15));
	require(a->scale == 1 || a->scale == 2 || a->scale == 4 || a->scale == 8);
}

static void check_pattern(const struct usdt_pattern *p)
{
	require(p->kind > 0 && p->kind < MT_EV_WIRE_MAX);
	require(p->ptr >= -1 && p->ptr < SDT_ARGS_MAX && p->size >= -1 && p->size < SDT_ARGS_MAX);
	require(p->device >= -1 && p->device < SDT_ARGS_MAX && p->text >= -1 && p->text < SDT_ARGS_MAX);
	require(p->provider[0] && p->name[0]);
	require(strlen(p->provider) < USDT_NAME_MAX && strlen(p->name) < USDT_NAME_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mt_usdt_arg args[SDT_ARGS_MAX];
	struct usdt_pattern pattern;
	char *text = malloc(size + 1);
	int cnt;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	cnt = sdt_args_parse(text, args);
	require(cnt <= SDT_ARGS_MAX);
	for (int i = 0; i < cnt; i++)
		check_arg(&args[i]);
	if (usdt_pattern_parse(text, &pattern, NULL) == 0)
		check_pattern(&pattern);
	free(text);
	return 0;
}
