/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A training job in miniature, upon flow_help.h: a weight; rounds of forward, backward and optimizer; extended classes. */
#ifndef MT_TESTS_TRAIN_HELP_H
#define MT_TESTS_TRAIN_HELP_H

#include "unit/flow_help.h"

/* Where its tensors lie. */
enum { X = 0x1040, WT = 0x2040, OUT = 0x4040, GW = 0x7040, M1 = 0x9040, M2 = 0xa040, TMP = 0xb040, Y = 0xc040, Z = 0xd040,
       FIRST = 0xe040, EMA = 0x11040, CONST = 0x12040, FIXED = 0x13040, MEAN = 0x14040, BUCKET = 0x15040, W2 = 0x16040,
       G2 = 0x17040, SHARD = 0x18040, BUF = 0x19040, SHARED = 0x20000 };

static int setup_extended(void **state)
{
	const struct model_opts opts = { .timeline = keep, .classes = CLASSES_EXTENDED };
	int r = setup(state);

	model__free(m);
	m = model__new(names, &opts);
	return r || !m;
}

/* Nothing of the graph is there before the first tensor of the job is told. */
__attribute__((unused)) static void first_tensor(void)
{
	op(0, "aten::relu", T(FIRST, R));
}

__attribute__((unused)) static void backward_of(uint64_t variable, uint64_t grad)
{
	apply(0, "MmBackward0", T(OUT));
	op(2, "aten::mm", T(OUT, R), T(X, R));
	allocated(grad, 3);
	accumulate(variable, 0, grad);
}

/* What the job does besides is done by `extra` between forward and backward. */
__attribute__((unused)) static void rounds(int cnt, void (*extra)(void))
{
	for (int i = 0; i < cnt; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		if (extra)
			extra();
		backward_of(WT, GW);
		step_begin();
		op(0, "aten::add_", T(WT, W | R), T(GW, R));
		step_end();
		freed(X, 0);
		freed(OUT, 0);
		freed(GW, 0);
	}
}

#endif
