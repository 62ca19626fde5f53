/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* spool: files without a name, for what does not stay in memory. They go with their last descriptor, whatever becomes of us. */
#ifndef MT_BASE_SPOOL_H
#define MT_BASE_SPOOL_H

#include <stdio.h>

int spool_open(void);	/* in TMPDIR, or in /tmp: a descriptor to read and to write, or -errno */
FILE *spool_file(void); /* the same as a stream; NULL: errno */

#endif
