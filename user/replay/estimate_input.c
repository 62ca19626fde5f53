/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/estimate_input.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/names.h"
#include "event/event.h"
#include "timeline/report.h"

static int take_names(void *ctx, const struct names *names)
{
	((struct estimate_input *)ctx)->recorded.names = names;
	return 0;
}

static int take_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return recorded__event(&((struct estimate_input *)ctx)->recorded, ev);
}

int estimate_input__read(struct estimate_input *in, const struct selection *asked, const char *path, struct err *err)
{
	struct replay_opts ro = { .top = 1, .begin = take_names, .event = take_event, .with_ops = 1, .with_nodes = 1,
				  .names = &in->names, .ctx = in };
	int r;

	*in = (struct estimate_input){ .path = path };
	recorded__init(&in->recorded);
	r = chosen__find(&in->chosen, asked, path, CLASSES_COMPAT, err);
	return r ? r : chosen__run(&in->chosen, path, &ro, &in->report, &in->end, err);
}

/* The device of that name, or the recording's own: 0 or -ENODATA with a message. */
static int find_dev(const struct recorded *r, const char *wanted, uint8_t *ret, struct err *err)
{
	char name[16];

	*ret = recorded__dev(r);
	for (unsigned dev = 1; wanted && dev < RECORDED_DEVS; dev++)
		if (r->devs[dev].peak && !strcmp(wanted, dev_name((uint8_t)dev, name))) {
			*ret = (uint8_t)dev;
			return 0;
		}
	if (!wanted && *ret)
		return 0;
	err_set(err, -ENODATA, wanted ? "no tensor was on '%.60s'" : "no tensor was recorded", wanted);
	return err_hint(err, *ret ? "there were on %s" : "record while the job works on tensors", dev_name(*ret, name));
}

int estimate_input__keep(struct estimate_input *in, const char *dev, const char *unknown, struct err *err)
{
	const struct report *rep = in->report;
	struct recorded *r = &in->recorded;
	uint8_t found = 0;
	int res;

	recorded__began(r, rep->run.start_ts_ns);
	for (size_t i = 0; i < rep->devs_cnt; i++)
		recorded__peak_was(r, rep->devs[i].dev, rep->devs[i].peak, rep->devs[i].peak_ts_ns);
	recorded__end(r);
	res = find_dev(r, dev, &found, err);
	if (res < 0)
		return res;
	if (!r->nodes) {
		err_set(err, -ENODATA, "%s has no data flow: %s are not known", in->path, unknown);
		return err_hint(err, "record with the source flow, which is a default");
	}
	return recorded_kept__init(&in->kept, r, found) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

void estimate_input__done(struct estimate_input *in)
{
	recorded_kept__done(&in->kept);
	recorded__done(&in->recorded);
	chosen__done(&in->chosen);
	names__free(in->names);
	report__free(in->report);
}
