/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The names of losses and devices: in one place, so that all views use the same. */
#include "event/event.h"

#include <stdio.h>

static const char *const loss_names[MT_LOSS_MAX] = MT_LOSS_NAMES_INIT;

const char *loss_name(unsigned reason)
{
	return reason < MT_LOSS_MAX ? loss_names[reason] : NULL;
}

const char *dev_name(uint8_t dev, char *buf)
{
	if (dev == MT_DEV_NONE)
		snprintf(buf, 16, "none");
	else if (dev == MT_DEV_CPU)
		snprintf(buf, 16, "cpu");
	else if (dev == MT_DEV_HOST)
		snprintf(buf, 16, "host");
	else if (dev_is_gpu(dev))
		snprintf(buf, 16, "cuda:%u", (unsigned)dev - MT_DEV_CUDA0);
	else
		snprintf(buf, 16, "dev%u", (unsigned)dev);
	return buf;
}
