/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * accept: which form of metrics a client wants, and whether packed, from its Accept headers, as Prometheus' content
 * negotiation has it: of our forms the one of the highest q; the older text form if it names none of ours, or there is no
 * header.
 */
#ifndef MT_SERVE_ACCEPT_H
#define MT_SERVE_ACCEPT_H

#include "view/metrics/metrics.h"

#define CONTENT_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define CONTENT_TEXT "text/plain; version=0.0.4; charset=utf-8"

enum metrics_form accept_form(const char *header); /* NULL: none was sent */
/* Does an Accept-Encoding header take gzip? NULL: no. */
int accept_gzip(const char *header);

#endif
