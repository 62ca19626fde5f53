/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * place: a server has a limited number; when few are left, which connection makes room for a new one.
 *
 * Connections without the token go first. Then one of the peer that has most, so that a flood takes its own places. Of
 * those, the one that has been longest in its state: waits for a request, or does not read an answer. Listeners to events
 * stay: there are few of them (SERVER_LISTENERS_MAX).
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

/* The peer of a socket: an address (of IPv6 the network, 64 bits), of a Unix socket the user. Zeroes: unknown. */
void peer__of(struct peer *ret, int fd);
/* The one to make room: an index, or cnt: none. */
size_t place_to_clear(const struct place *places, size_t cnt);

#endif
