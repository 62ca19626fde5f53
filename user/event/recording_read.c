/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The reading side. Frames are read with pread into a buffer, not mapped: a recording may still be
 * growing, or be cut while it is read, and a mapping would answer that with SIGBUS.
 *
 * A frame that is not whole or not in sequence is left out: what follows is searched for the next frame that is whole and
 * later than what was read (by a checksum over all of it), and the numbers in its header show how many events are
 * missing. Names of missing frames are "(lost name 7)", so that all others keep their ids. Reading ends where no whole
 * frame follows, or at a frame that violates the format though its checksum is right:
 * rec_reader__truncated() returns how many bytes were left.
 * Only what goes wrong outside of the file's contents (EIO, no memory) is an error.
 */
#include "event/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/err.h"
#include "base/infile.h"
#include "event/recording_frame.h"

#define SEARCH_FACTOR 4

struct rec_reader {
	int fd;		      /* -1: data */
	const uint8_t *data;
	uint64_t size, off;   /* off: after the last good frame */
	struct mtr_frame head; /* of the frame in body */
	const uint8_t *body;  /* in buf or data */
	uint8_t *buf;
	size_t buf_cap;
	int loaded;	      /* head and body are the next frame, checked */
	int ended;	      /* end mark seen */
	int stopped;	      /* nothing further can be read */
	uint32_t frame_no;
	struct rec_damage damage;
	uint64_t searched;    /* bytes of frames that were tried in the search for a whole one */
	uint64_t events, dropped, last_ns, names_bytes;
	uint64_t dense_names, dense_events; /* more than the file's bytes stand for */
	struct rec_dec *dec;
	struct names *names;
};

/* len bytes at off, which the caller knows to be below size: *ret points to them. */
static int rec_reader__get(struct rec_reader *r, uint64_t off, void *buf, size_t len,
			   const void **ret)
{
	size_t done = 0;

	if (r->fd < 0) {
		*ret = r->data + off;
		return 0;
	}
	while (done < len) {
		ssize_t n = pread(r->fd, (char *)buf + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA; /* became shorter */
		done += (size_t)n;
	}
	*ret = buf;
	return 0;
}

/* --- frames ---------------------------------------------------------------------------------- */

/* Is it the next frame, or one that may come after missing ones? */
static int is_next(const struct rec_reader *r, const struct mtr_frame *h)
{
	return h->frame_no == r->frame_no && h->events_before == r->events && h->name_first == names__last(r->names) + 1;
}

static int is_later(const struct rec_reader *r, const struct mtr_frame *h)
{
	uint64_t frames = (uint64_t)h->frame_no - r->frame_no;

	return h->frame_no >= r->frame_no && h->events_before >= r->events &&
	       h->events_before - r->events <= frames * MTR_FRAME_EVENTS_MAX &&
	       h->name_first > names__last(r->names) && h->name_first <= NAMES_MAX;
}

static int rec_reader__check_head(const struct rec_reader *r, uint64_t off, int may_be_later)
{
	const struct mtr_frame *h = &r->head;

	if (mtr_frame__check_header(h) < 0 || h->body_bytes > r->size - off - sizeof(*h))
		return -ENODATA;
	if (!(may_be_later ? is_later(r, h) : is_next(r, h)) || h->dropped_before < r->dropped ||
	    (h->events && h->first_ts_ns < r->last_ns))
		return -ENODATA;
	return 0;
}

/* Loads the frame at `off`. 0, -ENODATA when there is no whole and right one, or another error. */
static int rec_reader__load_at(struct rec_reader *r, uint64_t off, int may_be_later)
{
	const void *p;
	int ret;

	if (r->size - off < sizeof(r->head))
		return -ENODATA;
	ret = rec_reader__get(r, off, &r->head, sizeof(r->head), &p);
	if (ret < 0)
		return ret;
	if (p != &r->head)
		memcpy(&r->head, p, sizeof(r->head));
	ret = rec_reader__check_head(r, off, may_be_later);
	if (ret < 0)
		return ret;
	r->searched += may_be_later ? r->head.body_bytes : 0;
	if (r->fd >= 0 && r->head.body_bytes > r->buf_cap) {
		free(r->buf);
		r->buf = malloc(r->head.body_bytes);
		r->buf_cap = r->buf ? r->head.body_bytes : 0;
		if (!r->buf)
			return -ENOMEM;
	}
	ret = rec_reader__get(r, off + sizeof(r->head), r->buf, r->head.body_bytes, &p);
	if (ret < 0)
		return ret;
	r->body = p;
	if (mtr_frame__check_body(&r->head, r->body) < 0)
		return -ENODATA;
	r->loaded = 1;
	return 0;
}

static int rec_reader__load(struct rec_reader *r)
{
	return rec_reader__load_at(r, r->off, 0);
}

/* --- after a damaged one --------------------------------------------------------------------- */

/* The first place from `off` on where a frame's magic stands, in *ret; -ENODATA: nowhere. */
static int rec_reader__find_magic(struct rec_reader *r, uint64_t off, uint64_t *ret)
{
	static const uint32_t magic = MTR_FRAME_MAGIC;
	uint8_t buf[16384];

	while (r->size - off >= sizeof(struct mtr_frame)) {
		size_t len = r->size - off < sizeof(buf) ? (size_t)(r->size - off) : sizeof(buf);
		const void *p, *found;
		int res = rec_reader__get(r, off, buf, len, &p);

		if (res < 0)
			return res;
		found = memmem(p, len, &magic, sizeof(magic));
		if (found) {
			*ret = off + (uint64_t)((const uint8_t *)found - (const uint8_t *)p);
			return 0;
		}
		off += len - (sizeof(magic) - 1);
	}
	return -ENODATA;
}

static uint64_t over(uint64_t raw, uint64_t stored, uint64_t ratio)
{
	return raw > stored * ratio ? raw - stored * ratio : 0;
}

/* Ids of names are counted: those that are missing, in so many bytes, become "(lost name N)". */
static int rec_reader__fill_names(struct rec_reader *r, uint64_t bytes)
{
	uint64_t cnt = r->head.name_first - names__last(r->names) - 1;
	char text[32];

	r->dense_names += over(cnt * sizeof(text), bytes, MTR_NAMES_RATIO_MAX);
	if (r->dense_names > MTR_DENSE_NAMES_MAX)
		return -EINVAL;
	while (names__last(r->names) + 1 < r->head.name_first) {
		snprintf(text, sizeof(text), "(lost name %u)", names__last(r->names) + 1);
		if (!names__add(r->names, text).v)
			return -ENOMEM;
		r->names_bytes += strlen(text) + 1;
	}
	return 0;
}

/*
 * Loads the next whole frame, wherever it stands. A file made for the purpose could have a frame's head at every byte:
 * no more than SEARCH_FACTOR times the file's size is looked through.
 */
static int rec_reader__resync(struct rec_reader *r)
{
	uint64_t at = r->off;
	int res;

	while (!(res = rec_reader__find_magic(r, at, &at))) {
		res = rec_reader__load_at(r, at, 1);
		if (res != -ENODATA || r->searched / SEARCH_FACTOR > r->size)
			break;
		at++;
	}
	if (res < 0)
		return res;
	r->damage.places++;
	r->damage.bytes += at - r->off;
	r->damage.events += r->head.events_before - r->events;
	res = rec_reader__fill_names(r, at - r->off);
	r->off = at;
	r->frame_no = r->head.frame_no;
	r->events = r->head.events_before;
	return res;
}

/* A few bytes can stand for megabytes of names, and for millions of events: as many as an older writer may have made. */
static int rec_reader__check_size(struct rec_reader *r)
{
	struct mtr_column names, times;

	memcpy(&names, r->body + MTR_COL_NAMES * sizeof(names), sizeof(names));
	memcpy(&times, r->body + MTR_COL_TIME_LO * sizeof(times), sizeof(times));
	r->names_bytes += names.raw_bytes;
	r->dense_names += over(names.raw_bytes, names.stored_bytes, MTR_NAMES_RATIO_MAX);
	r->dense_events += over(r->head.events, times.stored_bytes, MTR_EVENTS_RATIO_MAX);
	return r->names_bytes > MTR_NAMES_BYTES_MAX || r->dense_names > MTR_DENSE_NAMES_MAX ||
			       r->dense_events > MTR_DENSE_EVENTS_MAX ?
		       -EINVAL :
		       0;
}

/* Decodes the loaded frame and steps over it. */
static int rec_reader__decode(struct rec_reader *r, const struct event **ret)
{
	const struct mtr_frame *h = &r->head;
	int res = rec_reader__check_size(r);

	if (res < 0)
		return res;
	res = rec_dec__frame(r->dec, h, r->body, r->names, ret);
	if (res < 0)
		return res;
	r->loaded = 0;
	r->off += sizeof(*h) + h->body_bytes;
	r->frame_no++;
	r->events += h->events;
	r->dropped = h->dropped_before;
	if (h->events)
		r->last_ns = h->last_ts_ns;
	if (h->flags & MTR_FRAME_END)
		r->ended = r->stopped = 1;
	return 0;
}

int rec_reader__next(struct rec_reader *r, const struct event **ret, size_t *ret_cnt,
		     struct err *err)
{
	const struct event *events;
	int res = 0;

	while (!r->stopped) {
		if (!r->loaded)
			res = rec_reader__load(r);
		if (res == -ENODATA)
			res = rec_reader__resync(r);
		if (res == 0)
			res = rec_reader__decode(r, &events);
		if (res < 0)
			break;
		if (r->head.events) {
			*ret = events;
			*ret_cnt = r->head.events;
			return 1;
		}
	}
	r->stopped = 1;
	if (res == 0 || res == -ENODATA || res == -EINVAL)
		return 0;
	return err_set(err, res, "reading the recording at byte %llu: %s",
		       (unsigned long long)r->off, strerror(-res));
}

/* --- open ------------------------------------------------------------------------------------ */

static int foreign(struct err *err)
{
	err_set(err, -EINVAL, "not a memtrace recording");
	err_hint(err, "recordings are made with: memtrace record -p PID -o FILE.mtr");
	return -EINVAL;
}

static int folder(struct err *err)
{
	err_set(err, -EISDIR, "a directory, not a recording");
	err_hint(err, "name the file in it: memtrace report DIR/FILE.mtr");
	return -EISDIR;
}

static int no_frame(struct err *err, const char *what)
{
	err_set(err, -ENODATA, "%s", what);
	err_hint(err, "the recording was cut before its first second was written; record again");
	return -ENODATA;
}

static int rec_reader__check_file(struct rec_reader *r, struct err *err)
{
	struct mtr_file h = { 0 };
	size_t have = r->size < sizeof(h) ? (size_t)r->size : sizeof(h);
	const void *p;
	int res;

	if (!r->size)
		return no_frame(err, "the file is empty");
	res = rec_reader__get(r, 0, &h, have, &p);
	if (res < 0)
		return err_set(err, res, "cannot read: %s", strerror(-res));
	if (p != &h)
		memcpy(&h, p, have);
	if (memcmp(h.magic, MTR_MAGIC, have < sizeof(h.magic) ? have : sizeof(h.magic)))
		return foreign(err);
	if (have >= offsetof(struct mtr_file, header_bytes) && h.version > MTR_VERSION) {
		err_set(err, -ENOTSUP, "recording of format version %u, newer than %u", h.version,
			MTR_VERSION);
		err_hint(err, "read it with the memtrace that made it, or a newer one");
		return -ENOTSUP;
	}
	if (have < sizeof(h))
		return no_frame(err, "the recording has no whole frame");
	if (h.header_bytes != sizeof(h) || !h.version ||
	    h.checksum != XXH3_64bits(&h, offsetof(struct mtr_file, checksum)))
		return foreign(err);
	r->off = sizeof(h);
	return 0;
}

static int rec_reader__start(struct rec_reader *r, struct err *err)
{
	int res;

	r->dec = rec_dec__new();
	r->names = names__new();
	if (!r->dec || !r->names)
		return err_set(err, -ENOMEM, "no memory to read a recording");
	res = rec_reader__check_file(r, err);
	if (res < 0)
		return res;
	res = rec_reader__load(r);
	if (res == -ENODATA)
		return no_frame(err, "the recording has no whole frame");
	return res < 0 ? err_set(err, res, "cannot read: %s", strerror(-res)) : 0;
}

int rec_reader__open_mem(struct rec_reader **ret, const void *data, size_t len, struct err *err)
{
	struct rec_reader *r = calloc(1, sizeof(*r));
	int res;

	if (!r)
		return err_set(err, -ENOMEM, "no memory to read a recording");
	r->fd = -1;
	r->data = data;
	r->size = len;
	res = rec_reader__start(r, err);
	if (res < 0) {
		rec_reader__free(r);
		return res;
	}
	*ret = r;
	return 0;
}

int rec_reader__open(struct rec_reader **ret, const char *path, struct err *err)
{
	struct rec_reader *r = calloc(1, sizeof(*r));
	struct stat st;
	int res = 0;

	if (!r)
		return err_set(err, -ENOMEM, "no memory to read a recording");
	r->fd = infile_find(path);
	if (r->fd < 0)
		r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (r->fd < 0 || fstat(r->fd, &st) < 0)
		res = err_set(err, -errno, "cannot open: %s", strerror(errno));
	else if (S_ISDIR(st.st_mode))
		res = folder(err);
	else if (!S_ISREG(st.st_mode))
		res = foreign(err);
	else
		r->size = (uint64_t)st.st_size;
	if (res == 0)
		res = rec_reader__start(r, err);
	if (res < 0) {
		rec_reader__free(r);
		return err_wrap(err, res, "%s", path);
	}
	*ret = r;
	return 0;
}

void rec_reader__free(struct rec_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	rec_dec__free(r->dec);
	names__free(r->names);
	free(r->buf);
	free(r);
}

struct names *rec_reader__names(struct rec_reader *r)
{
	return r->names;
}

struct names *rec_reader__take_names(struct rec_reader *r)
{
	struct names *names = r->names;

	r->names = NULL;
	return names;
}

int rec_reader__truncated(const struct rec_reader *r, uint64_t *ret_bytes)
{
	*ret_bytes = r->size - r->off;
	return !r->ended || r->size != r->off;
}

uint64_t rec_reader__dropped(const struct rec_reader *r)
{
	return r->dropped;
}

void rec_reader__damage(const struct rec_reader *r, struct rec_damage *ret)
{
	*ret = r->damage;
}

double rec_reader__progress(const struct rec_reader *r)
{
	return r->size ? (double)r->off / (double)r->size : 1.0;
}
