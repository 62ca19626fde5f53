/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shares: room in a buffer that one process cannot take from the others. The rule of the rings (bpf/share.bpf.c), and of the
 * events that wait to be put in order (user/live/share.h).
 *
 * A process gets no more room when it has more than SHARES_FACTOR times the free room. One process thus fills three
 * quarters, two six sevenths together; the rest is for those that send little, until the other side has read on. A
 * process floods if it asks for more than all others together and for twice what it gets. It has to leave as much
 * room as it has, so a busy process beside it gets three times as much if both cannot be followed. While no other
 * sends anything, one process may fill all but a sixteenth, which is kept for new ones.
 *
 * A process's bytes in the buffer are not known, but those it sent lately are. They count until a buffer's worth came
 * after them (half of them for as much again, and so on). Two that count at once may overwrite each other's count:
 * then a number is a little too small, which does no harm.
 */
#ifndef MT_SHARES_H
#define MT_SHARES_H

#include <linux/types.h>

#define SHARES_ROWS 64	  /* a power of two; with more processes those that send least take turns */
#define SHARES_TRIES 8
#define SHARES_FACTOR 3
#define SHARES_RESERVE 16 /* a part of the buffer */
#define SHARES_NOBODY 1024 /* … of all sent lately: if the others together sent less, they are ignored */
#define SHARES_EVIDENCE 8 /* … of the buffer: until so much was sent, shares are not known */
#define SHARES_AGAIN_NS 100000000 /* after so long with room for all, and little in it, counting begins anew */
#define SHARES_LAPS 32	  /* after so many nothing is left of a number */

/* Bytes that one process sent lately. */
struct mt_share {
	__u32 pid;  /* 0: nobody's */
	__u32 lap;
	__u32 reported;  /* as of that lap */
	__u32 asked; /* … and with what was refused */
	__u32 left_out; /* how often it was over, since it has this row */
};

struct mt_shares {
	__u64 reported, asked; /* of all, as of this lap */
	__u64 last_ns; /* when it was last asked */
	__u32 lap;     /* earlier bytes count half as much in each */
	__u32 pad;
	struct mt_share rows[SHARES_ROWS];
} __attribute__((aligned(64)));

enum mt_share_says {
	SHARE_TAKES,
	SHARE_FULL, /* the buffer is as good as full, and all in it is this process's, the only one */
	SHARE_OVER, /* the process has more than its share */
};

/* The rest of a number of that row in this lap. */
static inline __attribute__((always_inline)) __u64 share_now(const struct mt_shares *s, const struct mt_share *row, __u32 then)
{
	__u32 laps = s->lap - row->lap;

	return laps < SHARES_LAPS ? (__u64)then >> laps : 0;
}

/* The process's row, or that of the one that sent least among its possible rows. */
static inline __attribute__((always_inline)) struct mt_share *share_row(struct mt_shares *s, __u32 pid)
{
	struct mt_share *row, *least = &s->rows[pid & (SHARES_ROWS - 1)];

	for (__u32 i = 0; i < SHARES_TRIES; i++) {
		row = &s->rows[(pid + i) & (SHARES_ROWS - 1)];
		if (row->pid == pid)
			return row;
		if (share_now(s, row, row->reported) < share_now(s, least, least->reported))
			least = row;
	}
	least->pid = pid;
	least->reported = least->asked = least->left_out = 0;
	return least;
}

static inline __attribute__((always_inline)) void share_begin(struct mt_shares *s, __u64 size, __u64 waiting, __u64 capacity,
							      __u64 now_ns)
{
	__s64 quiet_ns = (__s64)(now_ns - s->last_ns);

	s->last_ns = now_ns;
	if (quiet_ns > SHARES_AGAIN_NS && waiting < capacity / 8 * 3) {
		s->lap += SHARES_LAPS;
		s->reported = s->asked = 0;
	}
	if (s->reported + size > capacity) {
		s->lap++;
		s->reported /= 2;
		s->asked /= 2;
	}
}

/* Own of all: sent lately. */
static inline __attribute__((always_inline)) enum mt_share_says share_judge(__u64 own, __u64 all, int floods, __u64 waiting,
									    __u64 capacity)
{
	__u64 room = capacity - waiting;

	if (waiting >= capacity || all <= capacity / SHARES_EVIDENCE)
		return SHARE_TAKES; /* with no room at all the buffer itself fails */
	if ((all - own) * SHARES_NOBODY <= all)
		return room < capacity / SHARES_RESERVE ? SHARE_FULL : SHARE_TAKES;
	return own * (waiting >> 8) > (floods ? 1 : SHARES_FACTOR) * (room >> 8) * all ? SHARE_OVER : SHARE_TAKES;
}

/*
 * May the process put `size` more into a buffer of which `waiting` of `capacity` (2^30 at most) is taken? Ask only when it is
 * a quarter full: before that there is room for all.
 */
static inline __attribute__((always_inline)) enum mt_share_says
shares_ask(struct mt_shares *s, __u32 pid, __u64 size, __u64 waiting, __u64 capacity, __u64 now_ns)
{
	enum mt_share_says says;
	struct mt_share *row;
	__u64 own, all, asked;

	share_begin(s, size, waiting, capacity, now_ns);
	row = share_row(s, pid);
	own = share_now(s, row, row->reported);
	all = s->reported > own ? s->reported : own;
	asked = share_now(s, row, row->asked) + size;
	s->asked += size;
	says = share_judge(own + size, all + size, asked * 2 > s->asked && asked > own * 2, waiting, capacity);
	row->lap = s->lap;
	row->asked = asked < (__u32)-1 ? (__u32)asked : (__u32)-1;
	row->reported = (__u32)(own + (says == SHARE_TAKES ? size : 0));
	row->left_out += says == SHARE_OVER;
	s->reported = all + (says == SHARE_TAKES ? size : 0);
	return says;
}

#endif
