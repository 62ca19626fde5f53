/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/loop_pace.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "live/naming.h"
#include "live/usage.h"

static int timer_set(int fd, uint64_t first_ns, uint64_t every_ns)
{
	struct itimerspec it = {
		.it_value = { (time_t)(first_ns / NS_PER_S), (long)(first_ns % NS_PER_S) },
		.it_interval = { (time_t)(every_ns / NS_PER_S), (long)(every_ns % NS_PER_S) },
	};

	return timerfd_settime(fd, 0, &it, NULL);
}

int timer_new(uint64_t first_ns, uint64_t every_ns)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0 && timer_set(fd, first_ns, every_ns) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void loop_pace__open(struct loop_pace *p)
{
	p->fd = timer_new(DRAIN_MS * 1000000ull, DRAIN_MS * 1000000ull);
}

void loop_pace__turn(struct loop_pace *p, bool is_idle, bool is_at_rest, struct usage *usage, struct naming *naming)
{
	uint64_t every_ns = (is_idle ? DRAIN_REST_MS : DRAIN_MS) * 1000000ull;

	if (is_idle != p->is_idle && timer_set(p->fd, every_ns, every_ns) == 0)
		p->is_idle = is_idle;
	if (is_at_rest == p->is_at_rest)
		return;
	p->is_at_rest = is_at_rest;
	usage->is_seldom = is_at_rest;
	if (naming)
		naming__rest(naming, is_at_rest);
}
