/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * html_page: the page without its data, as tools/embed-page put it together from user/view/page and the chart
 * library: the part before the JSON document, and the part after it.
 */
#ifndef MT_VIEW_PAGE_HTML_PAGE_H
#define MT_VIEW_PAGE_HTML_PAGE_H

#include <stddef.h>

struct html_part {
	const char *text;
	size_t len;
};

/* NULL: it is there. Else the reason why this build has no page. */
const char *html_page__missing(void);
struct html_part html_page__head(void);
struct html_part html_page__tail(void);
/* The Content-Security-Policy that stands in it, for a header; only a header can limit who may frame it. */
const char *html_page__policy(void);

#endif
