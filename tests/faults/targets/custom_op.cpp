// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * mt_faults::scan(x, a): y[i] = a * y[i - 1] + x[i] along the last dimension. An operator as users write them: a call that goes
 * through the dispatcher, and a leaf function that does the work.
 */
#include <torch/library.h>
#include <ATen/ops/empty_like.h>

/* The compiler keeps a leaf's values below the stack pointer, in the red zone. */
__attribute__((noinline)) static void scan_row(const float *x, float *y, int64_t n, float a)
{
	volatile float last[8] = { 0 };

	for (int64_t i = 0; i < n; i++) {
		last[i & 7] = a * last[(i - 1) & 7] + x[i];
		y[i] = last[i & 7];
	}
}

static at::Tensor scan(const at::Tensor &x, double a)
{
	at::Tensor in = x.contiguous(), out = at::empty_like(in);
	int64_t n = in.size(-1);

	for (int64_t row = 0; row < in.numel() / n; row++)
		scan_row(in.const_data_ptr<float>() + row * n, out.mutable_data_ptr<float>() + row * n, n, (float)a);
	return out;
}

TORCH_LIBRARY(mt_faults, m)
{
	m.def("scan(Tensor x, float a) -> Tensor", scan);
}
