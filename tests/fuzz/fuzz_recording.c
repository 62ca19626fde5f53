/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as a recording: as they are, and with the checksums put right. What comes out must keep
 * the promises of recording.h, and what was read must survive being written and read once more.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "event/recording.h"
#include "event/recording_frame.h"
#include "fuzz/mtr_fix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

/* The decoder never gives out what the encoder cannot write back the same. */
static void check_again(const struct event *evs, size_t cnt, uint32_t name_last)
{
	struct rec_frame_in in = { .events = evs, .event_cnt = (uint32_t)cnt, .name_first = 1 };
	struct rec_enc *e = rec_enc__new(0);
	struct rec_dec *d = rec_dec__new();
	struct names *names = names__new();
	const struct event *got;
	struct mtr_frame h;
	const void *frame;
	char buf[16];
	size_t len;

	require(e && d && names);
	for (uint32_t i = 1; i <= name_last && i < 4096; i++) {
		memcpy(buf, &i, sizeof(i));
		names__add_len(names, buf, sizeof(i));
	}
	in.name_first = names__last(names) + 1;
	rec_enc__frame(e, &in, &frame, &len);
	memcpy(&h, frame, sizeof(h));
	require(mtr_frame__check_header(&h) == 0);
	require(mtr_frame__check_body(&h, (const uint8_t *)frame + sizeof(h)) == 0);
	if (name_last < 4096) {
		const uint8_t *body = (const uint8_t *)frame + sizeof(h);

		require(rec_dec__frame(d, &h, body, names, &got) == 0);
		require(!memcmp(got, evs, cnt * sizeof(*evs)));
	}
	names__free(names);
	rec_dec__free(d);
	rec_enc__free(e);
}

static void read_all(const uint8_t *data, size_t size)
{
	const struct event *evs;
	struct rec_reader *r;
	uint64_t last_ns = 0, left;
	int again = 1;
	size_t cnt;

	if (rec_reader__open_mem(&r, data, size, NULL) < 0)
		return;
	while (rec_reader__next(r, &evs, &cnt, NULL) == 1) {
		uint32_t name_last = names__last(rec_reader__names(r));

		require(cnt && cnt <= MTR_FRAME_EVENTS_MAX);
		for (size_t i = 0; i < cnt; i++) {
			require(evs[i].ts_ns >= last_ns);
			require(evs[i].name.v <= name_last);
			last_ns = evs[i].ts_ns;
		}
		if (again)
			check_again(evs, cnt, name_last);
		again = 0;
	}
	(void)rec_reader__truncated(r, &left);
	require(left <= size);
	rec_reader__free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	require(!!copy);
	if (size)
		memcpy(copy, data, size);
	read_all(copy, size);
	mtr_fix_checksums(copy, size);
	read_all(copy, size);
	free(copy);
	return 0;
}
