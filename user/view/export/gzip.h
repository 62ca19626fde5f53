/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* gzip: a FILE whose bytes reach the disk compressed. */
#ifndef MT_VIEW_EXPORT_GZIP_H
#define MT_VIEW_EXPORT_GZIP_H

#include <stdio.h>

/* fd, which it closes, for writing in order. NULL with errno. An error shows at fwrite, fflush or fclose. */
FILE *gzip_open(int fd);
int gzip_is_asked(const char *path); /* ends in .gz */

#endif
