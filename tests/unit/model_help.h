/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A model that a test gives events to, and its last report. teardown checks what the model holds. */
#ifndef MT_TESTS_MODEL_HELP_H
#define MT_TESTS_MODEL_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/model.h"
#include "timeline/report.h"

static struct names *names;
static struct model *m;
static struct report *rep;

/* opts may be NULL. 0, or else no memory. */
static int model_begin(const struct model_opts *opts)
{
	names = names__new();
	m = model__new(names, opts);
	rep = NULL;
	return !names || !m;
}

static int teardown(void **state)
{
	(void)state;
	model__check(m);
	report__free(rep);
	rep = NULL;
	model__free(m);
	names__free(names);
	return 0;
}

#endif
