/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* spool: files without a name, for data beyond memory. They end with their last descriptor, however we end. */
#ifndef MT_BASE_SPOOL_H
#define MT_BASE_SPOOL_H

#include <stdio.h>

int spool_open(void);	/* in TMPDIR, or in /tmp: a descriptor for reading and writing, or -errno */
FILE *spool_file(void); /* the same as a stream; NULL: errno */

#endif
