/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Prints the table of the GPUs' memory API: "library symbol seen" a line, seen as in enum gpu_seen. */
#include <stdio.h>

#include "plan/catalog_gpu.h"

int main(void)
{
	const struct gpu_row *rows;
	size_t cnt = gpu_rows(&rows);

	for (size_t i = 0; i < cnt; i++)
		printf("%s %s %u\n", rows[i].lib, rows[i].symbol, rows[i].seen);
	return 0;
}
