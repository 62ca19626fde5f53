/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/looker.h"

#include <errno.h>

#include "base/clock.h"
#include "live/compiling.h"
#include "plan/plan.h"
#include "stack/capture.h"
#include "target/target.h"

static int open_reader(struct look_job *j)
{
	struct py_runtime rt;
	struct py_mem mem;
	struct target *t;
	struct plan *plan;
	int r = target__open(&t, j->pid, &j->err);

	if (r < 0)
		return r;
	r = plan__tensors(&plan, t, &j->err);
	if (r) {
		target__free(t);
		return r;
	}
	mem = py_mem_of(t);
	r = py_runtime__find(&rt, t, &mem, &j->err);
	if (r == -ENOENT)
		r = err_set(&j->err, -ENOTSUP, "no Python with symbols is mapped");
	if (!r) {
		struct py_reader_opts opts = { .target = t, .minor = rt.at->minor,
					       .interp_head = rt.addr + rt.at->interp_head,
					       .interp_next = rt.at->interp_next, .layout = plan->flow_layout.at,
					       .vtables = plan->flow_vtables,
					       .vtables_cnt = plan->flow_vtables_cnt };

		r = py_reader__new(&j->by.reader, &opts, &j->err);
		j->by.rt = rt;
		j->by.node_seq = plan->flow_layout.node_seq;
		plan__torch_tls(&j->by.tls, t);
	}
	plan__free(plan);
	target__free(t);
	return r;
}

/* A thread-local variable: its library and offset, as the loader wrote them. */
static struct mt_tls_var tls_var(const struct py_mem *mem, const struct tls_place *at)
{
	uint64_t slot[2];

	if (!at->slot || py_mem__read(mem, at->slot, slot, sizeof(slot)))
		return (struct mt_tls_var){ 0 };
	return (struct mt_tls_var){ slot[0], slot[1] + at->add };
}

/* How the kernel side finds modules. It need not wait for names: they are sent once they are known. */
static void find_how(struct look_job *j)
{
	struct target *t = NULL;
	struct py_mem mem;
	struct py_tsd tsd;
	uint64_t call;
	int r = py_reader__call(j->by.reader, j->by.rt.code_type, &call);

	j->no_call = r == -ENOTSUP;
	if (r || target__open(&t, j->pid, NULL))
		return;
	mem = py_mem_of(t);
	r = py_runtime__tsd(&j->by.rt, t, &mem, &tsd);
	if (!r) {
		j->how = (struct mt_module_proc){ .py = capture_how(j->by.rt.at, &tsd), .call = call,
						  .frame_self = j->by.rt.at->frame_self, .seq = tls_var(&mem, &j->by.tls.seq),
						  .grad = tls_var(&mem, &j->by.tls.grad), .node_seq = j->by.node_seq };
		j->has_how = 1;
	}
	j->no_thread = !j->has_how;
	target__free(t);
}

void look_job__do(struct look_job *j)
{
	j->r = j->by.reader ? 0 : open_reader(j);
	if (j->held) {
		j->held_ns = cpu_ns();
		j->r = j->r ? j->r : py_reader__holders(j->by.reader, j->by.rt.at, j->held, j->held_cnt, j->holders);
		j->held_ns = cpu_ns() - j->held_ns;
		return;
	}
	if (j->compiles) {
		compiling__look(j);
		return;
	}
	if (!j->r && j->wants_how)
		find_how(j);
	if (j->has_how)
		return;
	if (!j->r)
		j->r = py_reader__look(j->by.reader, j->kind, &j->look);
	if (j->by.reader && j->rest)
		py_reader__rest(j->by.reader);
}
