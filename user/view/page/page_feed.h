/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * page_feed: the page's document of a running trace (docs/page.md): a short report, and the composition of memory over
 * time from the reports so far (fold/hist.h): the last minutes at the highest moment of each second (a process's at one
 * moment a sample), earlier times at the fullest moments of equal stretches, and each device's peak exactly. Not known
 * while a trace runs, and left out: every change, lives of blocks, phases, places.
 *
 * Each document is whole, so a reader may miss any number of them; it holds PAGE_FEED_POINTS moments at most, and
 * PAGE_FEED_LANES lanes: the devices, and while there are several processes with blocks, each of those on each device.
 */
#ifndef MT_VIEW_PAGE_PAGE_FEED_H
#define MT_VIEW_PAGE_PAGE_FEED_H

#include <stddef.h>

#define PAGE_FEED_LANES 24 /* 1.3 MB each once the trace is long */
#define PAGE_FEED_POINTS 4096
#define PAGE_FEED_LANE_POINTS 512
#define PAGE_FEED_ROWS 100 /* of tables: at least these in a report */

struct page_feed;
struct report;

struct page_feed *page_feed__new(void); /* NULL: no memory */
void page_feed__free(struct page_feed *f);
/* Once a second or less often. Lanes without room are counted in the document. */
void page_feed__sample(struct page_feed *f, const struct report *r);
/* The document on one line, for free(); NULL: no memory. */
char *page_feed__document(struct page_feed *f, const struct report *r, size_t *ret_len);

#endif
