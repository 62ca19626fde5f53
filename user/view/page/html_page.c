/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/page/html_page.h"

#include "page_html.h" /* made by tools/embed-page: page_head, page_tail, PAGE_IS_WHOLE, PAGE_POLICY */

const char *html_page__missing(void)
{
	return PAGE_IS_WHOLE ? NULL : "this build has no chart library (uPlot): it could not be fetched; "
				      "run 'make page-library' where npm or curl reaches a registry, then make";
}

struct html_part html_page__head(void)
{
	return (struct html_part){ (const char *)page_head, sizeof(page_head) };
}

struct html_part html_page__tail(void)
{
	return (struct html_part){ (const char *)page_tail, sizeof(page_tail) };
}

const char *html_page__policy(void)
{
	return PAGE_POLICY "; frame-ancestors 'none'";
}
