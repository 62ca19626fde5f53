/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Two loops, one per channel (lookers.h has the other): a look at a process must not wait for an attach that takes a second.
 * They share the files that were handed out, under a lock.
 *
 * Signals of the terminal go to both halves; here they are ignored, because the other half ends in order and this one with it.
 * When the other half is gone, its end of the socket is, too: then the probes are removed in order, with the rests that spare
 * the job. No signal reports that end: a signal is for a user who kills the keeper (trace/covers.h).
 */
#include "keeper/serve.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keeper/lookers.h"

#define ORPHAN_S 3 /* removing 3,650 probes in order takes one or two */

static void probes_loop(struct keep *k)
{
	struct keep_request q;
	struct keep_reply reply;
	int fds[TAPS_FDS_MAX], to_close;

	while (channel__get_request(&k->probes, &q) == 1) {
		memset(&reply, 0, sizeof(reply));
		to_close = 1;
		keep__probes(k, &q, &reply, fds, &to_close);
		if (channel__put_reply(&k->probes, &reply, fds) < 0)
			break;
		for (uint32_t i = 0; to_close && i < reply.fds_cnt; i++)
			close(fds[i]);
	}
}

void keep__serve(struct keep *k)
{
	pthread_mutex_init(&k->libs.lock, NULL);
	if (wards__new(&k->wards, &k->who) < 0 || lookers_start(k) < 0)
		_exit(1);
	probes_loop(k);
	if (k->at_end)
		k->at_end(k->end_ctx);
	alarm(ORPHAN_S); /* whatever holds it up: no probe outlives memtrace for long */
	tracer__free(k->tracer); /* waits until all are gone */
	_exit(0);
}
