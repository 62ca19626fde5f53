/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/pack.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_NOT_ZLIB 16

char *pack_gzip(const char *text, size_t len, enum pack_how how, size_t *ret_len)
{
	z_stream z = { 0 };
	uLong room;
	char *out;
	int r = how == PACK_WELL ? deflateInit2(&z, 9, Z_DEFLATED, 15 | GZIP_NOT_ZLIB, 9, Z_DEFAULT_STRATEGY) :
				   deflateInit2(&z, 1, Z_DEFLATED, 12 | GZIP_NOT_ZLIB, 6, Z_DEFAULT_STRATEGY);

	if (r != Z_OK)
		return NULL;
	if (len > UINT_MAX / 2) {
		(void)deflateEnd(&z);
		return NULL;
	}
	room = deflateBound(&z, (uLong)len);
	out = malloc(room);
	z.next_in = (z_const Bytef *)(const Bytef *)text;
	z.avail_in = (uInt)len;
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)room;
	if (out && deflate(&z, Z_FINISH) != Z_STREAM_END) {
		free(out);
		out = NULL;
	}
	*ret_len = z.total_out;
	(void)deflateEnd(&z);
	return out;
}
