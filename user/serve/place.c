/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/place.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define NETWORK_BYTES 8 /* of an IPv6 address: a machine has all addresses behind them */

void peer__of(struct peer *ret, int fd)
{
	struct sockaddr_storage sa = { 0 };
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&sa;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&sa;
	socklen_t len = sizeof(sa), cred_len;
	struct ucred cred;

	memset(ret, 0, sizeof(*ret));
	if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
		return;
	cred_len = sizeof(cred);
	if (sa.ss_family == AF_INET)
		memcpy(ret->bytes, &v4->sin_addr, sizeof(v4->sin_addr));
	else if (sa.ss_family == AF_INET6)
		memcpy(ret->bytes, &v6->sin6_addr, IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? 16 : NETWORK_BYTES);
	else if (sa.ss_family == AF_UNIX && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len))
		memcpy(ret->bytes, &cred.uid, sizeof(cred.uid));
}

static size_t places_of(const struct place *places, size_t cnt, const struct peer *peer)
{
	size_t n = 0;

	for (size_t i = 0; i < cnt; i++)
		n += places[i].state != PLACE_FREE && !memcmp(&places[i].peer, peer, sizeof(*peer));
	return n;
}

size_t place_to_clear(const struct place *places, size_t cnt)
{
	size_t found = cnt, found_crowd = 0;

	for (size_t i = 0; i < cnt; i++) {
		const struct place *p = &places[i], *f = &places[found < cnt ? found : i];
		size_t crowd;

		if (p->state != WAITS && p->state != IS_ANSWERED)
			continue;
		crowd = places_of(places, cnt, &p->peer);
		if (found == cnt ||
		    (p->is_known != f->is_known ? p->is_known < f->is_known :
		     crowd != found_crowd	? crowd > found_crowd :
						  p->since_ns < f->since_ns)) {
			found = i;
			found_crowd = crowd;
		}
	}
	return found;
}
