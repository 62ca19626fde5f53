/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * names: every string that came from a target, interned once.
 *
 * An id is an index that never changes and is never reused, so it can be in events and files; 0 is "no name" and reads as "".
 * Ids are given out densely from 1: a recording writes the names with ids above the last one it wrote. Bytes are kept
 * unchanged; views escape them. Not thread-safe. Holds at most NAMES_MAX names of NAME_BYTES_MAX bytes: longer ones are cut,
 * further ones get NAMES_OVERFLOW ("?") and are counted by names__overflow_cnt().
 *
 * Names are never removed, so a process that may choose them could take all places for good: names that a process chose are
 * charged to it. No owner has more than an eighth of what is left; a name that is already there is not charged. So a process
 * that makes up names without end gets "?" for them, and there is always room for later processes.
 */
#ifndef MT_BASE_NAMES_H
#define MT_BASE_NAMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
	uint32_t v;
} name_id;

#define NAME_NONE ((name_id){ 0 })
#define NAMES_MAX (1u << 20)
#define NAME_BYTES_MAX 4096

struct names;

struct names *names__new(void); /* NULL: no memory */
void names__free(struct names *n);
/* Ids are equal if and only if the bytes are. NAME_NONE for an empty string or when memory ran out. */
name_id names__add(struct names *n, const char *text);
name_id names__add_len(struct names *n, const char *text, size_t len);
/*
 * A name that process `owner` chose; the owner is its pid, or another id that may have a share. Over its share: "?", counted.
 */
name_id names__add_of(struct names *n, uint32_t owner, const char *text, size_t len);
/* The owner has ended: its names stay, and a new owner with that number starts with no charge. */
void names__drop_owner(struct names *n, uint32_t owner);
/* At most this many bytes of text (a recording has such a limit). */
void names__limit(struct names *n, size_t bytes_max);
/* Called once for each owner without more room. */
void names__on_full(struct names *n, void (*fn)(void *ctx, uint32_t owner), void *ctx);
/* 0 if it was never added. */
name_id names__find(const struct names *n, const char *text);
/* NUL-terminated, valid as long as the table; "" for 0, "?" for an id that was never given out. */
const char *names__get(const struct names *n, name_id id);
size_t names__len(const struct names *n, name_id id); /* bytes, without the NUL */
uint32_t names__last(const struct names *n);	       /* highest id given out, 0 = none */
uint64_t names__overflow_cnt(const struct names *n);

#endif
