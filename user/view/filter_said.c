/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/filter_said.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/timeline.h"
#include "view/json.h"

void filter_json(struct json *j, const struct filter_said *f)
{
	char dev[16];

	json__begin_flat(j, "filter", '{');
	if (f->at)
		json__str(j, "at", f->at);
	if (f->from)
		json__str(j, "from", f->from);
	if (f->to)
		json__str(j, "to", f->to);
	if (f->dev >= 0)
		json__str(j, "device", dev_name((uint8_t)f->dev, dev));
	if (f->pids_cnt) {
		json__begin(j, "pids", '[');
		for (size_t i = 0; i < f->pids_cnt; i++)
			json__u64(j, NULL, f->pids[i]);
		json__end(j, ']');
	}
	if (f->rank >= 0)
		json__u64(j, "rank", (uint64_t)f->rank);
	if (f->category >= 0)
		json__str(j, "category", category_name((enum category)f->category));
	if (f->module)
		json__str(j, "module", f->module);
	if (f->op)
		json__str(j, "op", f->op);
	json__end(j, '}');
}

static void add_words(char *buf, size_t size, const char *what, const char *text)
{
	size_t len = strlen(buf);
	char safe[TEXT_BYTES_MAX];

	text_fit(safe, sizeof(safe), text, 60);
	snprintf(buf + len, size - len, "%s%s %s", len ? ", " : "", what, safe);
}

const char *filter_words(const struct filter_said *f, char *buf, size_t size)
{
	char num[24];

	buf[0] = '\0';
	if (f->from)
		add_words(buf, size, "from", f->from);
	if (f->to)
		add_words(buf, size, "to", f->to);
	for (size_t i = 0; i < f->pids_cnt; i++) {
		snprintf(num, sizeof(num), "%" PRIu32, f->pids[i]);
		add_words(buf, size, "process", num);
	}
	if (f->rank >= 0) {
		snprintf(num, sizeof(num), "%" PRId64, f->rank);
		add_words(buf, size, "rank", num);
	}
	if (f->category >= 0)
		add_words(buf, size, "category", category_name((enum category)f->category));
	if (f->module)
		add_words(buf, size, "module", f->module);
	if (f->op)
		add_words(buf, size, "operator", f->op);
	return buf;
}
