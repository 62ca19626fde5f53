/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "verdict/held.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "timeline/report.h"

/* Names are the target's own. */
static void say_container(char *buf, size_t size, const struct report_leak *l)
{
	char path[TEXT_BYTES_MAX], kind[TEXT_BYTES_MAX], where[TEXT_BYTES_MAX];
	const char *owner = "";
	int has_path = l->held_by[0] != '\0';

	text_fit(path, sizeof(path), l->held_by, 90);
	text_fit(kind, sizeof(kind), l->held_kind, 24);
	text_fit(where, sizeof(where), l->held_where, 90);
	if (has_path && where[0])
		owner = ", a variable of ";
	else if (!has_path)
		owner = ", and nothing that was seen refers to it";
	snprintf(buf, size, "%.900s%s%.100s with %" PRIu64 " of them when it was looked at%s%.900s", path,
		 has_path ? ", a " : "a ", kind, l->held_items, owner, has_path ? where : "");
}

void held_text(char *buf, size_t size, const struct report_leak *l)
{
	char by[3 * TEXT_BYTES_MAX];

	buf[0] = '\0';
	switch (l->held) {
	case HELD_ITSELF:
		say_container(by, sizeof(by), l);
		snprintf(buf, size, "held by %s", by);
		break;
	case HELD_GRAPH:
		say_container(by, sizeof(by), l);
		snprintf(buf, size, "kept by autograd, not by a container; what grows beside it is held by %s", by);
		break;
	case HELD_NONE:
		snprintf(buf, size, "no list, dict or object of Python holds many of its tensors");
		break;
	case HELD_UNSEEN:
		snprintf(buf, size, "hardly a tensor of Python has this memory: autograd or C++ keeps it");
		break;
	default:
		break;
	}
}
