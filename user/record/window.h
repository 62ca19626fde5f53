/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * window: a flight recorder. Keeps the last while of a trace in memory, as encoded frames, and writes it when asked.
 *
 * A replay of the file must know which blocks were live at its beginning. Nothing is kept twice for that: live at a frame's
 * beginning were the blocks allocated before it that are live now or were freed since. So each frame keeps the older blocks
 * that were freed in it (few: most blocks are short-lived), and the regions and frames that threads had open at its beginning.
 * Rare events (processes, sites, segments, counters) of frames that are dropped are kept, the last one of each.
 *
 * Bounds: WINDOW_BYTES of frames and what belongs to them, then the oldest go before their time; PAST_EVENTS_MAX rare
 * events (record/past.h). Files appear under their name whole or not at all.
 */
#ifndef MT_RECORD_WINDOW_H
#define MT_RECORD_WINDOW_H

#include "event/event.h"
#include "event/recording.h"
#include "model/model.h"

#define WINDOW_BYTES_DEFAULT (256ull << 20)
#define WINDOW_BYTES_MIN (8ull << 20)

struct err;
struct window;

struct window *window__new(struct names *names, uint64_t window_ns, uint64_t bytes_max); /* NULL: no memory */
void window__free(struct window *w);
/* What the window needs from its model; before the first event. */
void window__model_opts(struct window *w, struct model_opts *ret);
/* Each ordered event, after the model has handled it. */
void window__add(struct window *w, struct model *m, const struct event *ev);
/* Once a second: a frame ends, so that frames can leave by their age. */
void window__tick(struct window *w, struct model *m);
/*
 * Writes the window to path, which is there when it is whole. is_end: the trace is over, its last events are in the
 * window; else one is made. 0 or -errno. At the end, where the disk has no room, the older half is given up, again and again,
 * until the rest fits.
 */
int window__write(struct window *w, struct model *m, const char *path, const struct rec_writer_opts *o, int is_end,
		  struct err *err);
/* A reason to write the window: "out of memory"; NULL: none since the last call. */
const char *window__reason(struct window *w);
uint64_t window__cut(const struct window *w); /* events given up so */
uint64_t window__bytes(const struct window *w);
uint64_t window__span_ns(const struct window *w);

#endif
