/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/spread.h"

#include <math.h>

/* By degrees of freedom, from 1 on. Beyond them the rest of Fisher and Cornish's series is below a thousandth. */
double spread__t(size_t windows)
{
	static const double t[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
				    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086 };
	size_t cnt = windows - 1;
	double n = (double)cnt;

	return cnt <= sizeof(t) / sizeof(t[0]) ? t[cnt - 1] : 1.95996 + 2.3723 / n + 2.82 / (n * n);
}

struct report_estimate spread__of(const struct spread_step *v, size_t cnt)
{
	double sum = 0, squares = 0, mean;
	size_t windows = 0;

	if (!cnt)
		return (struct report_estimate){ 0, -1 };
	for (size_t i = 0; i < cnt; i++)
		sum += v[i].v - v[0].v; /* where all are the same nothing is rounded */
	mean = v[0].v + sum / (double)cnt;
	for (size_t i = 0; i < cnt; windows++) {
		double off = 0;

		for (uint64_t window = v[i].window; i < cnt && v[i].window == window; i++)
			off += v[i].v - mean;
		squares += off * off;
	}
	if (windows < 2)
		return (struct report_estimate){ mean, -1 };
	squares *= (double)windows / (double)(windows - 1);
	return (struct report_estimate){ mean, spread__t(windows) * sqrt(squares) / (double)cnt };
}
