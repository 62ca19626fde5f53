/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/selection_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/selection.h"
#include "timeline/timeline.h"
#include "view/json.h"

void selection_json(struct json *j, const struct selection *s)
{
	char dev[16];

	json__begin_flat(j, "filter", '{');
	if (s->at.text)
		json__str(j, "at", s->at.text);
	if (s->from.text)
		json__str(j, "from", s->from.text);
	if (s->to.text)
		json__str(j, "to", s->to.text);
	if (s->dev >= 0)
		json__str(j, "device", dev_name((uint8_t)s->dev, dev));
	if (s->pids_cnt) {
		json__begin(j, "pids", '[');
		for (size_t i = 0; i < s->pids_cnt; i++)
			json__u64(j, NULL, s->pids[i]);
		json__end(j, ']');
	}
	if (s->rank >= 0)
		json__u64(j, "rank", (uint64_t)s->rank);
	if (s->category >= 0)
		json__str(j, "category", category_name((enum category)s->category));
	if (s->module)
		json__str(j, "module", s->module);
	if (s->op)
		json__str(j, "op", s->op);
	json__end(j, '}');
}

static void add_words(char *buf, size_t size, const char *what, const char *text)
{
	size_t len = strlen(buf);
	char safe[TEXT_BYTES_MAX];

	text_fit(safe, sizeof(safe), text, 60);
	snprintf(buf + len, size - len, "%s%s %s", len ? ", " : "", what, safe);
}

const char *selection_words(const struct selection *s, char *buf, size_t size)
{
	char num[24];

	buf[0] = '\0';
	if (s->from.text)
		add_words(buf, size, "from", s->from.text);
	if (s->to.text)
		add_words(buf, size, "to", s->to.text);
	for (size_t i = 0; i < s->pids_cnt; i++) {
		snprintf(num, sizeof(num), "%" PRIu32, s->pids[i]);
		add_words(buf, size, "process", num);
	}
	if (s->rank >= 0) {
		snprintf(num, sizeof(num), "%" PRId64, s->rank);
		add_words(buf, size, "rank", num);
	}
	if (s->category >= 0)
		add_words(buf, size, "category", category_name((enum category)s->category));
	if (s->module)
		add_words(buf, size, "module", s->module);
	if (s->op)
		add_words(buf, size, "operator", s->op);
	return buf;
}
