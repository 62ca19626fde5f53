/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * place: a server has so many; when they get few, which of those who have one makes room for somebody new.
 *
 * Who has shown the token goes after who has not. Then the peer that has most of them pays for it, so that a flood takes its
 * own places. Of those, who has been longest in what it does: waits for a request, or does not read an answer. Who listens
 * to events stays: there are few of them (SERVER_LISTENERS_MAX).
 */
#ifndef MT_SERVE_PLACE_H
#define MT_SERVE_PLACE_H

#include <stddef.h>
#include <stdint.h>

enum place_state { PLACE_FREE = 0, WAITS, IS_ANSWERED, LISTENS, LEAVES };

struct peer {
	uint8_t bytes[16];
};

struct place {
	enum place_state state;
	int is_known; /* has shown the token */
	uint64_t since_ns; /* in this state; LISTENS: its message was begun */
	struct peer peer;
};

/* Whose socket this is: an address (of IPv6 the network, 64 bits), of a Unix socket the user. Zeroes: cannot be told. */
void peer__of(struct peer *ret, int fd);
/* Who makes room: an index, or cnt: nobody. */
size_t place_to_clear(const struct place *places, size_t cnt);

#endif
