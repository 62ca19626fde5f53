/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/self.h"
#include "memtrace/shared.h"
#include "keeper/filter.h"
#include "keeper/serve.h"
#include "keeper/wire_plan.h"
#include "trace/taps.h"
#include "trace/trace.h"

static int probes_trace(struct keep *k, const struct keep_request *q, struct keep_reply *ret, int *ret_fds)
{
	struct taps_desc desc;
	struct tracer_opts o;
	int r;

	if (k->tracer || q->len != sizeof(o))
		return -EINVAL;
	memcpy(&o, k->probes.area, sizeof(o));
	r = tracer__new(&k->tracer, &o, &ret->err);
	if (r < 0)
		return r;
	r = filter_keeper_more();
	if (r < 0)
		return err_set(&ret->err, r, "giving rights away: %s", strerror(-r));
	tracer__taps(k->tracer, &desc, ret_fds);
	memcpy(k->probes.area, &desc, sizeof(desc));
	ret->len = sizeof(desc);
	ret->fds_cnt = desc.rings_cnt + 1;
	return 0;
}

/* A plan from the area, copied first; its files are those that were handed out. */
struct got_plan {
	struct wire_plan wire;
	void *bytes;
};

static void got_plan__done(struct got_plan *g)
{
	for (size_t i = 0; i < g->wire.plan.libs_cnt && g->wire.plan.libs; i++)
		if (g->wire.plan.libs[i].fd >= 0)
			close(g->wire.plan.libs[i].fd);
	wire_plan__done(&g->wire);
	free(g->bytes);
}

/* The state of an earlier call precedes it in the area: `head` bytes. */
static int got_plan__init(struct got_plan *g, struct keep *k, const struct keep_request *q, void *head, size_t head_bytes,
			  struct err *err)
{
	int r;

	*g = (struct got_plan){ 0 };
	if (q->len < head_bytes)
		return -EINVAL;
	g->bytes = malloc(q->len - head_bytes + 1);
	if (!g->bytes)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(head, k->probes.area, head_bytes);
	memcpy(g->bytes, k->probes.area + head_bytes, q->len - head_bytes);
	r = wire_plan__read(&g->wire, g->bytes, q->len - head_bytes);
	if (r < 0)
		return err_set(err, r, "a plan that makes no sense");
	for (size_t i = 0; i < g->wire.plan.libs_cnt; i++) {
		struct plan_lib *l = &g->wire.plan.libs[i];

		l->fd = kept_libs__get(&k->libs, l->dev, l->ino); /* < 0: its sites fail, and are counted */
	}
	return 0;
}

static int probes_attach(struct keep *k, const struct keep_request *q, struct keep_reply *ret)
{
	struct keep_attached a = { 0 };
	struct got_plan g;
	uint8_t *failed = NULL;
	int r = got_plan__init(&g, k, q, &a.st, sizeof(a.st), &ret->err);

	if (!r) {
		failed = calloc(g.wire.plan.sites_cnt + 1, 1);
		r = failed ? 0 : err_set(&ret->err, -ENOMEM, "out of memory");
	}
	if (!r && sizeof(a) + g.wire.plan.sites_cnt > k->probes.area_bytes)
		r = -E2BIG;
	if (!r && (a.st.more > ATTACH_MORE_MAX || a.st.rest_ns > ATTACH_REST_NS_MAX)) /* a sleeper would not notice our end */
		r = -EINVAL;
	if (!r) {
		a.st.wanted = g.wire.wanted;
		a.st.site_failed = failed;
		r = tracer__attach(k->tracer, q->pid, &g.wire.plan, &a.st, &ret->err);
		tracer__progs(k->tracer, &a.progs);
		a.st.wanted = a.st.site_failed = NULL;
		memcpy(k->probes.area, &a, sizeof(a));
		memcpy(k->probes.area + sizeof(a), failed, g.wire.plan.sites_cnt);
		ret->len = sizeof(a) + g.wire.plan.sites_cnt;
	}
	free(failed);
	got_plan__done(&g);
	return r;
}

static int probes_retire(struct keep *k, const struct keep_request *q, struct keep_reply *ret)
{
	struct keep_retired a = { 0 };
	struct got_plan g;
	int r = got_plan__init(&g, k, q, &a.st, sizeof(a.st), &ret->err);

	if (!r && !g.wire.wanted)
		r = -EINVAL;
	if (!r) {
		r = tracer__retire(k->tracer, q->pid, &g.wire.plan, g.wire.wanted, &a.st);
		tracer__progs(k->tracer, &a.progs);
		memcpy(k->probes.area, &a, sizeof(a));
		ret->len = sizeof(a);
	}
	got_plan__done(&g);
	return r;
}

/* The content of the area if it has that size; *ret_has: there is any. */
static int get_struct(struct keep *k, const struct keep_request *q, void *ret, size_t bytes, int *ret_has)
{
	*ret_has = q->len != 0;
	if (q->len && q->len != bytes)
		return -EINVAL;
	memcpy(ret, k->probes.area, q->len);
	return 0;
}

static int probes_python(struct keep *k, const struct keep_request *q)
{
	struct mt_py_proc how;
	int has, r = get_struct(k, q, &how, sizeof(how), &has);

	return r ? r : tracer__python(k->tracer, q->pid, has ? &how : NULL);
}

static int probes_catch(struct keep *k, const struct keep_request *q)
{
	struct mt_catch what;
	int has, r = get_struct(k, q, &what, sizeof(what), &has);

	return r ? r : tracer__catch(k->tracer, q->pid, has ? &what : NULL);
}

static int probes_modules(struct keep *k, const struct keep_request *q)
{
	struct mt_module_proc how;
	int has, r = get_struct(k, q, &how, sizeof(how), &has);

	return r ? r : tracer__modules(k->tracer, q->pid, has ? &how : NULL);
}

struct fired {
	struct keep_fired *v;
	size_t cnt;
};

static void on_fired(void *ctx, name_id sym, uint64_t cnt)
{
	struct fired *f = ctx;

	if (f->cnt < KEEP_FIRED_MAX)
		f->v[f->cnt++] = (struct keep_fired){ cnt, sym };
}

static int probes_fired(struct keep *k, struct keep_reply *ret)
{
	struct fired f = { .v = (struct keep_fired *)(void *)k->probes.area };
	int r = tracer__each_fired(k->tracer, on_fired, &f);

	ret->len = f.cnt * sizeof(*f.v);
	return r;
}

static int probes_usage(struct keep_reply *ret)
{
	self_usage(&ret->val[0], &ret->val[1]);
	return 0;
}

/* Requests about one process. */
static int probes_of_process(struct keep *k, const struct keep_request *q, struct keep_reply *ret)
{
	switch (q->op) {
	case KEEP_ATTACH: return probes_attach(k, q, ret);
	case KEEP_FOLLOW: return tracer__follow(k->tracer, q->pid, &ret->err);
	case KEEP_PYTHON: return probes_python(k, q);
	case KEEP_CATCH: return probes_catch(k, q);
	case KEEP_MODULES: return probes_modules(k, q);
	case KEEP_MODULE: return tracer__module(k->tracer, q->pid, q->arg[0], q->arg[1] != 0);
	case KEEP_PLAIN_PLACE: return tracer__plain_place(k->tracer, q->arg[0]);
	case KEEP_RETIRE: return probes_retire(k, q, ret);
	case KEEP_LOWER: return tracer__lower(k->tracer, q->pid, (enum mt_level)q->arg[0], &ret->val[0]);
	default: return -ENOSYS;
	}
}

/* Undoes what was set for a process, which may have ended by now. */
static int is_undo(const struct keep_request *q)
{
	return ((q->op == KEEP_PYTHON || q->op == KEEP_CATCH || q->op == KEEP_MODULES) && !q->len) ||
	       (q->op == KEEP_MODULE && !q->arg[1]);
}

/* A number that is another process's by now, or of none, keeps no probes. */
static void probes_of_ward(struct keep *k, const struct keep_request *q, struct keep_reply *ret)
{
	struct keep_hold hold;
	int r = keep__hold(k, q, &hold);

	if (!r) {
		ret->r = probes_of_process(k, q, ret);
		r = keep__release(k, &hold, 1);
		if (r < 0)
			tracer__detach(k->tracer, q->pid);
	}
	if (r < 0)
		ret->r = keep_refused(&ret->err, q->pid, r);
}

void keep__probes(struct keep *k, const struct keep_request *q, struct keep_reply *ret, int *ret_fds, int *ret_close)
{
	switch (q->op) {
	case KEEP_TRACE:
		*ret_close = 0; /* they stay the tracer's */
		ret->r = probes_trace(k, q, ret, ret_fds);
		return;
	case KEEP_UNTRACE:
		tracer__free(k->tracer);
		k->tracer = NULL;
		return;
	case KEEP_USAGE:
		ret->r = probes_usage(ret);
		return;
	}
	if (!k->tracer) {
		ret->r = -EINVAL;
		return;
	}
	switch (q->op) {
	case KEEP_FIRED: ret->r = probes_fired(k, ret); return;
	case KEEP_DETACH: tracer__detach(k->tracer, q->pid); return; /* of one that is gone, too */
	}
	if (is_undo(q))
		ret->r = probes_of_process(k, q, ret);
	else
		probes_of_ward(k, q, ret);
}
