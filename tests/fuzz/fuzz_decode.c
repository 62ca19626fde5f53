/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Ring records of any bytes through decode, order and model: what reaches the model after a broken
 * kernel side. Input: records as (one length byte, that many bytes), over and over.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "event/decode.h"
#include "event/order.h"
#include "model/model.h"

struct street {
	struct decode *d;
	struct model *m;
};

static int ordered(void *ctx, const struct event *in)
{
	struct street *s = ctx;
	struct event ev = *in;

	decode__resolve(s->d, &ev);
	return model__handle(s->m, &ev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct vtable vtables[] = { { 0x2000, { 1 } }, { 0x1000, { 2 } } };
	struct model_opts mo = { 0 };
	struct names *names = names__new();
	struct street s = { decode__new(names), model__new(names, &mo) };
	struct order *o = order__new(64, ordered, &s);

	names__add(names, "AddBackward0");
	names__add(names, "aten::add");
	if (decode__add_vtables(s.d, 1, vtables, 2))
		abort();
	while (size > 1) {
		size_t len = data[0] < size - 1 ? data[0] : size - 1;
		/* A copy of its own: reading past the record is seen by the sanitizer. */
		uint64_t *rec = malloc(len ? len : 1);
		struct event ev;

		memcpy(rec, data + 1, len);
		if (decode__record(s.d, rec, len, &ev) == 1)
			order__push(o, &ev);
		free(rec);
		data += len + 1;
		size -= len + 1;
	}
	order__flush(o, UINT64_MAX);
	model__check(s.m);
	decode__drop_pid(s.d, 1);
	order__free(o);
	model__free(s.m);
	decode__free(s.d);
	names__free(names);
	return 0;
}
