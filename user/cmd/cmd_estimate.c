/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/infile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "estimate/estimate.h"
#include "estimate/graph_json.h"
#include "event/event.h"
#include "memtrace/recording.h"
#include "replay/estimate_input.h"
#include "replay/recorded_step.h"
#include "replay/recorded_whatif.h"
#include "timeline/report.h"
#include "view/tables/estimate.h"
#include "view/tables/kept.h"
#include "view/tables/whatif.h"

/* Bits of the devices that count: 0 or -EINVAL. */
static int counts_of(const struct options *o, const struct est_doc *d, uint64_t *ret, struct err *err)
{
	char all[160] = "";
	size_t len = 0;

	*ret = 0;
	if (!o->count) {
		*ret = est_not_cpu(d);
		return 0;
	}
	for (size_t i = 0; i < d->devs_cnt; i++) {
		char safe[TEXT_BYTES_MAX];

		if (!strcmp(o->count, "all") || !strcmp(o->count, d->dev_names[i]))
			*ret |= 1ull << i;
		text_fit(safe, sizeof(safe), d->dev_names[i], 16);
		len += strlen(all + len);
		snprintf(all + len, sizeof(all) - len, ", %s", safe); /* cut, where there are very many */
	}
	if (*ret || !d->devs_cnt)
		return 0;
	err_set(err, -EINVAL, "nothing of the graph is on '%.60s'", o->count);
	return err_hint(err, "all%s", all);
}

static int write_result(const struct options *o, const struct est_result *res, struct err *err)
{
	struct view_opts v = view_opts_of(o);
	int r;

	v.top = report_top(o);
	r = o->json ? estimate_view_json(stdout, o->file, res, &v) : estimate_view_text(stdout, o->file, res, &v);
	return r < 0 ? err_set(err, r, "writing: %s", strerror(-r)) : 0;
}

static int estimate_graph(const struct options *o, FILE *in, const char *name, struct err *err)
{
	struct est_result res = { 0 };
	struct est_doc d;
	uint64_t counts;
	int r = est_doc__init(&d);

	r = r ? err_set(err, r, "out of memory") : graph_json_read(&d, in, name, err);
	if (!r)
		r = counts_of(o, &d, &counts, err);
	if (!r)
		r = est_result__init(&res, &d, counts, err);
	if (!r)
		r = write_result(o, &res, err);
	est_result__done(&res);
	est_doc__done(&d);
	return r;
}

/* --- from the recording: lives of blocks and the place of the peak, then the nodes of its step ---------------------- */

static int input_read(struct estimate_input *in, const struct options *o, struct err *err)
{
	struct selection asked = selection_of(o);

	return estimate_input__read(in, &asked, o->file, err);
}

static void input_say(const struct estimate_input *in, const struct options *o)
{
	if (!o->quiet)
		replay_say(in->path, in->report->run.lost[MT_LOSS_DAMAGED], &in->end);
}

static int write_kept(const struct options *o, const struct estimate_input *in, const struct recorded_step *s, struct err *err)
{
	const struct kept_view v = { .path = o->file, .recorded = &in->recorded, .kept = &in->kept, .step = &s->step,
				     .result = s->has_result ? &s->result : NULL, .report = s->report, .names = in->names };
	struct view_opts vo = view_opts_of(o);
	int r;

	vo.top = report_top(o);
	r = o->json ? kept_view_json(stdout, &v, &vo) : kept_view_text(stdout, &v, &vo);
	return r < 0 ? err_set(err, r, "writing: %s", strerror(-r)) : 0;
}

static int estimate_recording(const struct options *o, struct err *err)
{
	struct estimate_input in;
	struct recorded_step s = { .has_result = false };
	int r = input_read(&in, o, err);

	if (!r)
		input_say(&in, o);
	if (!r)
		r = refuse_gaps(in.report, o->file, err);
	if (!r)
		r = estimate_input__keep(&in, o->count, "last uses", err);
	if (!r)
		r = recorded_step__read(&s, &in, err);
	if (!r)
		r = write_kept(o, &in, &s, err);
	if (!r)
		r = loss_exit_code(o, s.report);
	recorded_step__done(&s);
	estimate_input__done(&in);
	return r;
}

/* --- what if ------------------------------------------------------------------------------------------------------- */

static int is_what_if(const struct options *o)
{
	return o->batches[0] || o->optimizer || o->dtype > 0 || o->ranks || o->checkpoint;
}

static int input_of_what_if(struct estimate_input *in, const struct options *o, struct err *err)
{
	int r = input_read(in, o, err);

	if (!r)
		r = refuse_gaps(in->report, o->file, err);
	return r ? r : estimate_input__keep(in, o->count, "categories", err);
}

static int write_what_if(const struct options *o, const struct recorded_whatif *w, const struct report *rep, struct err *err)
{
	struct whatif_view v = { .path = o->file, .opts = &w->opts, .w = &w->result, .optimizer = o->optimizer_name,
				 .report = rep, .lost = report_lost_events(rep), .probe_share = rep->cost.share };
	struct view_opts vo = view_opts_of(o);
	int r = o->json ? whatif_view_json(stdout, &v) : whatif_view_text(stdout, &v, &vo);

	return r < 0 ? err_set(err, r, "writing: %s", strerror(-r)) : 0;
}

/* The report is the last one's. */
static int answer_what_if(const struct options *o, struct estimate_input *a, struct estimate_input *b, struct err *err)
{
	struct whatif_opts asked = { .batch_a = o->batches[0], .batch_b = o->batches[1], .batch = o->batch,
				     .optimizer = (enum whatif_optimizer)o->optimizer, .dtype = o->dtype, .budget = o->budget,
				     .ranks = (uint32_t)o->ranks, .units = o->units, .no_reshard = o->no_reshard,
				     .checkpoint = o->checkpoint };
	struct recorded_whatif w;
	int r = recorded_whatif__run(&w, &asked, a, b, err);

	if (!r)
		r = write_what_if(o, &w, b->report, err);
	recorded_whatif__done(&w);
	return r;
}

static int estimate_what_if(const struct options *o, struct err *err)
{
	struct options second = options_of_second(o);
	struct estimate_input in[2] = { { 0 } };
	size_t last = o->file_b ? 1 : 0;
	int r = input_of_what_if(&in[0], o, err);

	if (!r && last)
		r = input_of_what_if(&in[1], &second, err);
	if (!r)
		r = answer_what_if(o, &in[0], &in[last], err);
	for (size_t i = last + 1; !r && i > 0; i--) {
		input_say(&in[i - 1], o);
		r = loss_exit_code(o, in[i - 1].report);
	}
	estimate_input__done(&in[0]);
	estimate_input__done(&in[1]);
	return r;
}

/* A pipe is a graph: a recording is not read from one. */
static int is_recording(FILE *in)
{
	char magic[sizeof(MTR_MAGIC) - 1];
	struct stat st;
	int is_it;

	if (fstat(fileno(in), &st) || !S_ISREG(st.st_mode))
		return 0;
	is_it = fread(magic, 1, sizeof(magic), in) == sizeof(magic) && !memcmp(magic, MTR_MAGIC, sizeof(magic));
	rewind(in);
	return is_it;
}

static int is_about_recording(const struct options *o)
{
	return is_what_if(o) || o->pids_cnt || o->rank >= 0;
}

static int no_recording(const struct options *o, struct err *err)
{
	err_set(err, -EINVAL, "%s is no recording: --batch, --optimizer, --dtype, --pid and --rank are about what was recorded",
		o->file);
	return err_hint(err, "of a graph: trace the changed model with python -m memtrace.graph");
}

int cmd_estimate(const struct options *o, struct err *err)
{
	const char *name = strrchr(o->file, '/');
	int fd = infile_find(o->file), r;
	FILE *in = fd >= 0 ? fdopen(fd, "r") : fopen(o->file, "re");

	if (!in)
		return err_set(err, -errno, "%s: %s", o->file, strerror(errno));
	if (is_recording(in))
		r = is_what_if(o) ? estimate_what_if(o, err) : estimate_recording(o, err);
	else
		r = is_about_recording(o) ? no_recording(o, err) : estimate_graph(o, in, name ? name + 1 : o->file, err);
	(void)fclose(in);
	return r;
}
