/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A door for tests that count the pages of their own children: without the terabytes that the address sanitizer has mapped. */
#ifndef MT_TESTS_UNIT_MAPS_FIX_H
#define MT_TESTS_UNIT_MAPS_FIX_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/door.h"

static int maps_without_shadow(void *ctx, pid_t pid, enum door_file which)
{
	int fd = door_own.file(NULL, pid, which), to;
	char line[PATH_MAX + 128];
	FILE *from;

	(void)ctx;
	if (which != DOOR_MAPS || fd < 0)
		return fd;
	from = fdopen(fd, "r");
	to = memfd_create("maps", 0);
	while (fgets(line, sizeof(line), from)) {
		unsigned long long a = 0, b = 0;

		(void)sscanf(line, "%llx-%llx", &a, &b);
		if (b - a < 1ull << 38)
			(void)!write(to, line, strlen(line));
	}
	fclose(from);
	lseek(to, 0, SEEK_SET);
	return to;
}

/* In place of door_own; its other looks are that one's. */
static inline struct door *use_door_without_shadow(void)
{
	static struct door d;

	d = door_own;
	d.file = maps_without_shadow;
	door_use(&d);
	return &d;
}

#endif
