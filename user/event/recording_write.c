/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The writing side. Events wait in an array until a frame is full or a flush is asked for; a frame
 * is one write at the end of the last whole frame. When that fails (disk full, quota, EIO) the file
 * is cut back to the last whole frame and the events of the frame are counted as dropped: the
 * recording stays readable, goes on when there is room again, and its later frames count the missing
 * events. Names are not lost with it: they go with the next frame that can be written.
 *
 * The place to write is kept here, not taken from the file's end, so a torn frame that could not
 * even be cut off is overwritten by the next one.
 */
#include "event/recording.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/err.h"
#include "base/free.h"
#include "base/outfile.h"
#include "event/recording_disk.h"
#include "event/recording_frame.h"

struct rec_writer {
	struct outfile file;
	char *path;
	const struct names *names;
	uint32_t names_last;	 /* highest id in the file */
	uint32_t names_known;	 /* highest id seen in the table */
	uint64_t names_bytes;	 /* in the file, see MTR_NAMES_BYTES_MAX */
	struct rec_enc *enc;
	struct event *pending;
	uint32_t pending_cnt;
	uint32_t frame_no;
	uint64_t last_ns;
	uint64_t bytes;		 /* whole frames; where the next one goes */
	uint64_t added, written, dropped, stalled; /* stalled: of those dropped */
	int is_whole;
	struct rec_disk *disk; /* NULL: written here */
	int has_head;	       /* … it has been given the file's head */
};

/* --- open ------------------------------------------------------------------------------------ */

static void rec_writer__free(struct rec_writer *w)
{
	if (!w)
		return;
	rec_enc__free(w->enc);
	free_all(w->pending, w->path, w);
}

static int not_a_file(const char *path, struct err *err)
{
	err_set(err, -EINVAL, "%s is not a regular file", path);
	return err_hint(err, "a recording needs a file it can seek in; name one with -o");
}

/* The file is the disk's to write. */
static int rec_writer__give(struct rec_writer *w, struct err *err)
{
	int dir_fd = outfile__dir(&w->file);
	int r = rec_disk__begin(w->disk, w->file.fd, dir_fd);

	if (dir_fd >= 0)
		close(dir_fd);
	if (r < 0)
		outfile__drop(&w->file);
	return r < 0 ? err_set(err, r, "writing %s: %s", w->path, strerror(-r)) : 0;
}

int rec_writer__open(struct rec_writer **ret, const char *path, const struct rec_writer_opts *o, struct err *err)
{
	struct rec_writer *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "no memory for a recording");
	w->names = o->names;
	w->is_whole = o->is_whole;
	w->disk = o->disk;
	w->path = strdup(path);
	w->enc = rec_enc__new(0);
	w->pending = malloc(MTR_FRAME_EVENTS_MAX * sizeof(*w->pending));
	if (!w->path || !w->enc || !w->pending) {
		rec_writer__free(w);
		return err_set(err, -ENOMEM, "no memory for a recording");
	}
	r = outfile__open(&w->file, path, o->is_whole ? OUTFILE_WHOLE : OUTFILE_GROWING, &o->how, err);
	if (!r && w->file.is_stream) {
		outfile__drop(&w->file);
		r = not_a_file(path, err);
	}
	if (!r && w->disk)
		r = rec_writer__give(w, err);
	if (r < 0) {
		rec_writer__free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void rec_writer__drop(struct rec_writer *w)
{
	if (w)
		outfile__drop(&w->file);
	rec_writer__free(w);
}

/* --- frames ---------------------------------------------------------------------------------- */

static int rec_writer__say(const struct rec_writer *w, int r, struct err *err)
{
	err_set(err, r, "cannot write recording %s: %s", w->path, strerror(-r));
	if (r == -ENOSPC || r == -EDQUOT)
		err_hint(err, "the disk is full; what was written so far stays readable");
	else if (r == -EFBIG)
		err_hint(err, "the file size limit is reached (ulimit -f, or the file system's)");
	return r;
}

static int rec_writer__fail(struct rec_writer *w, int r, struct err *err)
{
	if (ftruncate(w->file.fd, (off_t)w->bytes) < 0)
		r = r ? r : -errno; /* the next frame overwrites what is torn */
	return rec_writer__say(w, r, err);
}

static struct mtr_file file_head(void)
{
	struct mtr_file h = { .version = MTR_VERSION, .header_bytes = sizeof(h) };

	memcpy(h.magic, MTR_MAGIC, sizeof(h.magic));
	h.checksum = XXH3_64bits(&h, offsetof(struct mtr_file, checksum));
	return h;
}

/* --- by way of the disk's process -------------------------------------------------------------- */

/* It reports failures late: then we go back to the state before that frame. */
static int rec_writer__go_back(struct rec_writer *w, struct err *err)
{
	struct rec_mark m;
	int r = rec_disk__failed(w->disk, &m);

	if (!r)
		return 0;
	w->dropped += w->written - m.written;
	w->written = m.written;
	w->frame_no = m.frame_no;
	w->names_last = m.names_last;
	w->names_bytes = m.names_bytes;
	w->has_head = m.has_head != 0;
	return rec_writer__say(w, r, err);
}

static int rec_writer__put(struct rec_writer *w, const void *data, size_t len, struct err *err)
{
	struct rec_mark before = { .frame_no = w->frame_no, .names_last = w->names_last, .names_bytes = w->names_bytes,
				   .written = w->written, .has_head = (uint64_t)w->has_head };
	struct mtr_file h = file_head();
	int r = w->has_head ? 0 : outfile__show(&w->file, err);

	if (r < 0)
		return r;
	r = rec_disk__put(w->disk, &h, w->has_head ? 0 : sizeof(h), data, len, &before);
	w->has_head |= !r;
	if (r == -EAGAIN) {
		err_set(err, r, "cannot write recording %s: the disk takes nothing", w->path);
		err_hint(err, "it goes on when the disk does; what is lost meanwhile is counted");
		return r; /* also without an err: it is counted apart */
	}
	return r < 0 ? err_set(err, r, "the process that writes recording %s is gone", w->path) : 0;
}

int rec_writer__wait(struct rec_writer *w, uint64_t wait_ns, struct err *err)
{
	int r = w->disk ? rec_disk__wait(w->disk, wait_ns) : 0, r2;

	if (!r || r == -ETIMEDOUT)
		return r;
	r2 = rec_writer__go_back(w, err);
	return r2 ? r2 : err_set(err, r, "the process that writes recording %s is gone", w->path);
}

/* --- frames, and names before them --------------------------------------------------------------- */

/* An old file of that name goes only now, when there is something to put in its place. */
static int rec_writer__begin(struct rec_writer *w, struct err *err)
{
	struct mtr_file h = file_head();
	int r = outfile_write_at(w->file.fd, &h, sizeof(h), 0);

	if (r < 0)
		return rec_writer__fail(w, r, err);
	if (!w->is_whole)
		r = outfile__show(&w->file, err);
	if (!r)
		w->bytes = sizeof(h);
	return r;
}

static int rec_writer__write(struct rec_writer *w, const void *data, size_t len, struct err *err)
{
	int r = w->bytes ? 0 : rec_writer__begin(w, err);

	if (r < 0)
		return r;
	r = outfile_write_at(w->file.fd, data, len, w->bytes);
	if (r < 0)
		return rec_writer__fail(w, r, err);
	w->bytes += len;
	return 0;
}

static int rec_writer__frame(struct rec_writer *w, const struct event *events, uint32_t event_cnt,
			     uint32_t name_cnt, uint16_t flags, struct err *err)
{
	struct rec_frame_in in = {
		.events = events, .event_cnt = event_cnt, .names = w->names,
		.name_first = w->names_last + 1, .name_cnt = name_cnt, .frame_no = w->frame_no,
		.flags = flags, .events_before = w->written, .dropped_before = w->dropped,
	};
	const void *data;
	size_t len;
	int r;

	rec_enc__frame(w->enc, &in, &data, &len);
	r = w->disk ? rec_writer__put(w, data, len, err) : rec_writer__write(w, data, len, err);
	if (r < 0)
		return r;
	w->frame_no++;
	w->names_last += name_cnt;
	w->written += event_cnt;
	return 0;
}

/* Writes names until what is left fits into one frame: *ret_cnt names of *ret_bytes. */
static int rec_writer__names(struct rec_writer *w, uint32_t *ret_cnt, size_t *ret_bytes,
			     struct err *err)
{
	uint32_t last = names__last(w->names), cnt = 0;
	size_t bytes = 0;
	int r;

	for (uint32_t id = w->names_last + 1; id <= last; id++) {
		size_t len = names__len(w->names, (name_id){ id });

		if (w->names_bytes + bytes + len + 2 > MTR_NAMES_BYTES_MAX)
			return err_set(err, -E2BIG, "recording %s: too many names", w->path);
		if (bytes + len + 2 > MTR_FRAME_NAMES_BYTES_MAX) {
			r = rec_writer__frame(w, NULL, 0, cnt, 0, err);
			if (r < 0)
				return r;
			w->names_bytes += bytes;
			bytes = cnt = 0;
		}
		bytes += len + 2; /* the longest length takes 2 bytes */
		cnt++;
	}
	*ret_cnt = cnt;
	*ret_bytes = bytes;
	return 0;
}

int rec_writer__flush(struct rec_writer *w, struct err *err)
{
	int r, failed = w->disk ? rec_writer__go_back(w, err) : 0;
	uint32_t name_cnt = 0, cnt = w->pending_cnt;
	size_t name_bytes = 0;

	if (!cnt && names__last(w->names) == w->names_last)
		return failed;
	r = rec_writer__names(w, &name_cnt, &name_bytes, failed ? NULL : err);
	if (r == 0)
		r = rec_writer__frame(w, w->pending, cnt, name_cnt, 0, failed ? NULL : err);
	if (r < 0)
		w->dropped += cnt;
	else
		w->names_bytes += name_bytes;
	if (r == -EAGAIN)
		w->stalled += cnt;
	w->pending_cnt = 0;
	return failed ? failed : r;
}

int rec_writer__add(struct rec_writer *w, const struct event *ev, struct err *err)
{
	struct event *to = &w->pending[w->pending_cnt];

	w->added++;
	if (ev->name.v > w->names_known) {
		w->names_known = names__last(w->names);
		if (ev->name.v > w->names_known) {
			w->dropped++;
			return err_set(err, -EINVAL, "event with a name that was never given out");
		}
	}
	*to = *ev;
	if (to->ts_ns < w->last_ns)
		to->ts_ns = w->last_ns; /* the file promises that time does not go back */
	w->last_ns = to->ts_ns;
	if (++w->pending_cnt < MTR_FRAME_EVENTS_MAX)
		return 0;
	return rec_writer__flush(w, err);
}

int rec_writer__add_frame(struct rec_writer *w, const void *frame, size_t len, struct err *err)
{
	const uint8_t *body = (const uint8_t *)frame + sizeof(struct mtr_frame);
	struct mtr_frame h;
	int r = rec_writer__flush(w, err);

	if (r < 0)
		return r;
	memcpy(&h, frame, sizeof(h));
	w->added += h.events;
	if (!w->bytes)
		r = rec_writer__begin(w, err);
	if (r < 0)
		return r;
	mtr_frame__move(&h, body, w->frame_no, w->names_last + 1, w->written, w->dropped);
	r = outfile_write_at(w->file.fd, &h, sizeof(h), w->bytes);
	if (!r)
		r = outfile_write_at(w->file.fd, body, len - sizeof(h), w->bytes + sizeof(h));
	if (r < 0) {
		w->dropped += h.events;
		return rec_writer__fail(w, r, err);
	}
	w->bytes += len;
	w->frame_no++;
	w->written += h.events;
	w->last_ns = h.last_ts_ns;
	return 0;
}

/* The end mark also after a failure: it is small, and has the number of missing events. 0 or the first error. */
static int rec_writer__end(struct rec_writer *w, struct err *err)
{
	int r = rec_writer__flush(w, err);
	int r2 = rec_writer__frame(w, NULL, 0, 0, MTR_FRAME_END, r < 0 ? NULL : err);

	return r < 0 ? r : r2;
}

static int rec_writer__end_disk(struct rec_writer *w, struct err *err)
{
	int r = rec_writer__end(w, err);
	int r2 = rec_writer__wait(w, MTR_CLOSE_NS, r < 0 ? NULL : err);

	if (r2 < 0 && r2 != -ETIMEDOUT) { /* the failure left no end mark */
		(void)rec_writer__end(w, NULL);
		(void)rec_writer__wait(w, MTR_CLOSE_NS, NULL);
	}
	if (r2 == -ETIMEDOUT) {
		outfile__leave(&w->file);
		err_set(err, r2, "cannot write recording %s: the disk takes nothing", w->path);
		err_hint(err, "what it was given is written when it does, by process %d", (int)rec_disk__pid(w->disk));
	} else if (!r && !r2 && rec_disk__sync_error(w->disk)) {
		r = rec_writer__say(w, rec_disk__sync_error(w->disk), err);
	}
	return r2 < 0 && r >= 0 ? r2 : r2 == -ETIMEDOUT ? r2 : r;
}

int rec_writer__close(struct rec_writer *w, struct err *err)
{
	int r, r2 = 0;

	if (!w)
		return 0;
	r = w->disk ? rec_writer__end_disk(w, err) : rec_writer__end(w, err);
	if (r < 0 && w->is_whole)
		outfile__drop(&w->file);
	else if (r != -ETIMEDOUT)
		r2 = outfile__finish(&w->file, r < 0 ? NULL : err);
	rec_writer__free(w);
	return r ? r : r2;
}

uint64_t rec_writer__bytes(const struct rec_writer *w)
{
	return w->disk ? rec_disk__bytes(w->disk) : w->bytes;
}

uint64_t rec_writer__dropped(const struct rec_writer *w)
{
	return w->dropped;
}

uint64_t rec_writer__stalled(const struct rec_writer *w)
{
	return w->stalled;
}
