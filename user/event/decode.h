/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * decode: raw ring records to struct event.
 *
 * Checks length and kind of every record, turns cookies and vtable pointers into names at once, and
 * run-time name hashes into names after ordering (decode__resolve): the text of a hash may lie in
 * another CPU's ring than its first use, but never later in time.
 */
#ifndef MT_EVENT_DECODE_H
#define MT_EVENT_DECODE_H

#include <stddef.h>

#include "base/vtables.h"
#include "event/event.h"

struct decode;

struct decode *decode__new(struct names *names); /* borrows the names; NULL: no memory */
void decode__free(struct decode *d);
/* Backward nodes of a process, copied, beside those it has already. 0 or -ENOMEM. */
int decode__add_vtables(struct decode *d, uint32_t pid, const struct vtable *v, size_t cnt);
void decode__drop_pid(struct decode *d, uint32_t pid);
/*
 * 1: *ret is an event; 0: the record was a name and is in the table now; -EBADMSG: not a record of
 * ours (counted).
 */
int decode__record(struct decode *d, const void *rec, size_t len, struct event *ret);
/*
 * MT_EV_PLACE: *ret is the name that allocations there have from now on. 1: it is new; 0: known, -ENOSPC: no room (the
 * process's share of names); -EBADMSG: not a record of ours (counted).
 */
int decode__place(struct decode *d, const void *rec, size_t len, name_id *ret);
/* Tensors of a record that decode__record took, as EV_ARG events (or MT_EV_SAVED); *ev is the record's own event. */
size_t decode__args_cnt(const void *rec, size_t len);
void decode__arg(const void *rec, size_t i, const struct event *ev, struct event *ret);
/* After order, before any consumer: fills ev->name of kinds whose name is a run-time text. */
void decode__resolve(struct decode *d, struct event *ev);
/* The hash that stands for a name in records; 0: none yet. A linear search. */
uint64_t decode__hash_of(const struct decode *d, name_id name);
uint64_t decode__bad_cnt(const struct decode *d);

#endif
