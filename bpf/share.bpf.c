// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How much of a ring that fills each process has; see include/memtrace/shares.h, and share_has_room in lib/emit.h. */
#include "lib/emit.h"

struct mt_shares mt_shares[MT_RINGS_MAX] = {};

__noinline int share_takes(u64 waiting, u64 size)
{
	struct mt_shares *s = &mt_shares[ring_number() & (MT_RINGS_MAX - 1)];
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	enum mt_share_says says = shares_ask(s, pid, size, waiting, mt_config.ring_bytes, bpf_ktime_get_ns());

	if (says == SHARE_TAKES)
		return 1;
	loss_count(says == SHARE_OVER ? MT_LOSS_SHARE : MT_LOSS_RING);
	return 0;
}
