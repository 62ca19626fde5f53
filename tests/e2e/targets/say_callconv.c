/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What memtrace thinks of every operator of a library, planned or not. Usage: say_callconv FILE std|own
 * One line an operator: NAME index:form:where … as truth_callconv has it; NAME ! errno if it is refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "plan/callconv.h"
#include "target/elf.h"

static struct schema_index *schemas;
static enum callconv_optional optional;

static int each(void *ctx, const struct elf_sym *sym)
{
	static const char prefix[] = "_ZN2at4_ops";
	struct mt_flow_spec spec = { 0 };
	struct schema s;
	struct schema_text text;
	char *name;
	long n;
	int r;

	(void)ctx;
	if (strncmp(sym->name, prefix, sizeof(prefix) - 1))
		return 0;
	n = strtol(sym->name + sizeof(prefix) - 1, &name, 10);
	if (n <= 0 || (long)strlen(name) < n || strncmp(name + n, "4callE", 6))
		return 0;
	printf("%.*s", (int)n, name);
	r = schema_index__find(schemas, name, (size_t)n, &text);
	r = r ? r : schema_parse(text.at, text.len, &s);
	r = r ? r : callconv__spec(sym->name, &s, optional, &spec);
	if (r)
		printf(" ! %d", r);
	for (uint32_t i = 0; i < spec.args_cnt; i++)
		printf(" %u:%u:%u", spec.args[i].index, spec.args[i].form, spec.args[i].where);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct elf *e;

	if (argc != 3 || elf__open(&e, open(argv[1], O_RDONLY), argv[1], &err) < 0 || schema_index__of(e, &schemas) < 0)
		return 1;
	optional = strcmp(argv[2], "own") ? CALLCONV_STD : CALLCONV_OWN_OPTIONAL;
	elf__each_symbol(e, each, NULL);
	schema_index__free(schemas);
	elf__free(e);
	return 0;
}
