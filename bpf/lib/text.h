/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * text: run-time names. A name travels once from each process, as its text, and from then on as its 64-bit hash: user
 * space keeps the table. If the text could not be sent it is forgotten here too, so that the next
 * use sends it again. The table of names sent forgets the least recently used: a process that makes up names without end
 * (a number in each region's) makes others' be sent once more, and takes none of their places for good.
 *
 * Names are read into the thread's own state, for want of room on the stack. A buffer of the CPU would
 * not do: if the kernel preempts programs (preempt=full) another thread's program would overwrite it.
 */
#ifndef MT_BPF_TEXT_H
#define MT_BPF_TEXT_H

#include "lib/emit.h"

static __always_inline u64 text_hash(const struct mt_text *b)
{
	u64 h = 0x9e3779b97f4a7c15ull;

#pragma unroll
	for (u32 i = 0; i < MT_NAME_LEN_MAX / 8; i++) {
		h ^= b->words[i];
		h *= 0xff51afd7ed558ccdull;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

static __always_inline u64 text_reported(const struct mt_text *b)
{
	u64 h = text_hash(b), reported = h ^ (bpf_get_current_pid_tgid() >> 32) * 0x9e3779b97f4a7c15ull;
	u8 one = 1;

	if (bpf_map_lookup_elem(&names_reported, &reported))
		return h;
	if (bpf_map_update_elem(&names_reported, &reported, &one, BPF_NOEXIST)) {
		/* Another CPU was first, or no room: then the text is sent, and sent again at the next use. */
		if (bpf_map_lookup_elem(&names_reported, &reported))
			return h;
		loss_count(MT_LOSS_NAME_TABLE);
	}
	if (emit_name(h, b))
		bpf_map_delete_elem(&names_reported, &reported);
	return h;
}

/* Hash of the NUL-terminated string at `ptr` of the target, cut at MT_NAME_LEN_MAX - 1; 0 = unreadable. */
static __always_inline u64 text_cstring(struct mt_thread *t, u64 ptr)
{
	struct mt_text *b = &t->text;

	__builtin_memset(b, 0, sizeof(*b));
	if (bpf_probe_read_user_str(b->text, sizeof(b->text), (void *)ptr) <= 0) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	return text_reported(b);
}

/* The same for `len` bytes. */
static __always_inline u64 text_bytes(struct mt_thread *t, u64 ptr, u64 len)
{
	struct mt_text *b = &t->text;

	__builtin_memset(b, 0, sizeof(*b));
	if (len > MT_NAME_LEN_MAX - 1)
		len = MT_NAME_LEN_MAX - 1;
	if (bpf_probe_read_user(b->text, len & (MT_NAME_LEN_MAX - 1), (void *)ptr)) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	return text_reported(b);
}

#endif
