/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "session"
#include "record/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "record/past.h"
#include "record/window.h"
#include "event/recording.h"
#include "event/recording_disk.h"
#include "keeper/confine.h"
#include "model/model.h"
#include "record/dump.h"

#define WINDOWS_MAX 64 /* files of one trace */
#define WINDOWS_PEAKS (WINDOWS_MAX / 2) /* of them for new peaks; the rest is for requests and refusals */
#define DISK_QUIET_NS 1000000000ull  /* a wait for the disk is not reported before this */
#define DISK_WAIT_NS 10000000000ull  /* … and it ends after this */

static const char new_peak_why[] = "a new peak";

/* The disk's process opens nothing: it is given the file. */
static int confine_disk(void)
{
	return confine_reader(NULL, 0, NULL);
}

int recorder__init(struct recorder *r, const struct recorder_opts *o, struct names *names, struct model_opts *ret_model,
		   struct err *err)
{
	*r = (struct recorder){ .opts = *o, .names = names, .path = o->path, .new_peak.share = o->new_peak };
	if (o->window_ns) {
		r->window = window__new(names, o->window_ns, o->window_bytes);
		if (!r->window)
			return err_set(err, -ENOMEM, "out of memory");
		window__model_opts(r->window, ret_model);
	}
	if ((o->path || o->late_path) && !o->window_ns) {
		int ret = rec_disk__new(&r->disk, REC_DISK_RING_BYTES, o->how.asker, confine_disk, err);

		if (ret < 0)
			return ret;
	}
	if (!o->path && o->late_path) {
		r->past = calloc(1, sizeof(*r->past));
		if (!r->past)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

void recorder__done(struct recorder *r)
{
	rec_disk__free(r->disk);
	dump__free(r->dump);
	if (r->past)
		past__done(r->past);
	free(r->past);
	window__free(r->window);
}

static struct rec_writer_opts recorder__writer_opts(const struct recorder *r)
{
	return (struct rec_writer_opts){ .names = r->names, .how = r->opts.how, .is_whole = r->window != NULL,
					 .disk = r->disk };
}

static int recorder__try_name(const struct recorder *r, const char *path, struct err *err)
{
	struct rec_writer_opts o = recorder__writer_opts(r);
	struct rec_writer *trial;
	int ret = rec_writer__open(&trial, path, &o, err);

	if (!ret)
		rec_writer__drop(trial);
	return ret;
}

/* Also the longest numbered name must not be too long. */
static int recorder__try_window(const struct recorder *r, struct err *err)
{
	char longest[4096];
	int ret = recorder__try_name(r, r->path, err);

	if (ret < 0)
		return ret;
	if ((size_t)snprintf(longest, sizeof(longest), "%s-99999", r->path) >= sizeof(longest))
		return err_set(err, -ENAMETOOLONG, "%s is too long a name", r->path);
	return recorder__try_name(r, longest, err);
}

int recorder__open(struct recorder *r, struct err *err)
{
	struct rec_writer_opts o = recorder__writer_opts(r);

	if (r->window)
		return recorder__try_window(r, err);
	return r->path ? rec_writer__open(&r->writer, r->path, &o, err) : 0;
}

/* --- events ------------------------------------------------------------------------------------ */

/* The first failure is printed; those that follow are counted. */
static void recorder__reported(struct recorder *r, int ret)
{
	if (ret >= 0 || r->has_failed)
		return;
	r->has_failed = 1;
	log_warn("recording: %s; going on without it", r->err.msg);
	if (r->err.hint[0])
		fprintf(stderr, "hint: %s\n", r->err.hint);
}

void recorder__add(struct recorder *r, struct model *m, const struct event *ev)
{
	r->last_ns = ev->ts_ns;
	if (r->window)
		window__add(r->window, m, ev);
	if (r->past)
		past__add(r->past, ev);
	if (r->writer)
		recorder__reported(r, rec_writer__add(r->writer, ev, r->has_failed ? NULL : &r->err));
}

/* Prints the reason if it takes longer than DISK_QUIET_NS. */
static int recorder__wait(struct recorder *r, struct err *err)
{
	uint64_t wait_ns = r->opts.disk_wait_ns ? r->opts.disk_wait_ns : DISK_WAIT_NS;
	int ret = rec_writer__wait(r->writer, DISK_QUIET_NS, err);

	if (ret != -ETIMEDOUT)
		return ret;
	log_warn("the disk of %s takes nothing: waiting for it, %.0f s at most", r->path, (double)wait_ns / 1e9);
	ret = rec_writer__wait(r->writer, wait_ns, err);
	return ret == -ETIMEDOUT ? err_set(err, ret, "recording %s: the disk takes nothing", r->path) : ret;
}

int recorder__begin(struct recorder *r, struct err *err)
{
	struct err *first = r->has_failed ? NULL : &r->err;
	int ret = r->writer ? rec_writer__flush(r->writer, first) : 0;

	if (r->writer && !ret)
		ret = recorder__wait(r, first);
	if (ret < 0 && !rec_writer__bytes(r->writer)) {
		*err = r->err;
		return ret;
	}
	recorder__reported(r, ret); /* the disk has filled up during the attach */
	return 0;
}

/* The process of the disk has that file; another one is written without. */
static void recorder__forget(struct recorder *r)
{
	r->writer = NULL;
	rec_disk__free(r->disk);
	r->disk = NULL;
	r->has_failed = 0;
}

static int recorder__write_past(struct recorder *r, struct model *m, struct err *err)
{
	const char *note;
	struct past_moment now;
	char text[160];
	int ret = past_moment__now(&now, m, r->last_ns);

	snprintf(text, sizeof(text), "Recorded from %.1f s after the attach on: what was alive before is written as it was "
			"then; losses are those of all the time.", (double)(r->last_ns - r->past->start_ns) / 1e9);
	note = text;
	ret = ret < 0 ? err_set(err, ret, "out of memory") : past__write(r->past, &now, m, r->names, &note, 1, r->writer, err);
	past_moment__done(&now, 1);
	return ret ? ret : rec_writer__flush(r->writer, err);
}

bool recorder__begin_late(struct recorder *r, struct model *m, const char *what)
{
	struct rec_writer_opts o = recorder__writer_opts(r);
	struct err err = { 0 };
	int ret;

	r->path = r->opts.late_path(r->opts.ctx);
	ret = rec_writer__open(&r->writer, r->path, &o, &err);
	if (!ret) {
		ret = recorder__write_past(r, m, &err);
		if (ret < 0) {
			rec_writer__drop(r->writer);
			recorder__forget(r);
		}
	}
	if (ret < 0)
		log_warn("not recording: %s", err.msg);
	else
		fprintf(stderr, "recording %s from now on, to %s\n", what, r->path);
	return ret >= 0;
}

void recorder__end_late(struct recorder *r)
{
	struct event end = { .ts_ns = r->last_ns, .kind = EV_END, .aux = EV_END_WINDOW };
	int ret = rec_writer__add(r->writer, &end, &r->err);

	ret = ret < 0 ? ret : rec_writer__flush(r->writer, &r->err);
	if (!ret)
		ret = rec_writer__wait(r->writer, DISK_QUIET_NS, &r->err);
	if (ret < 0)
		rec_writer__drop(r->writer);
	else
		ret = rec_writer__close(r->writer, &r->err);
	if (ret < 0)
		log_warn("recording %s: %s", r->path, r->err.msg);
	else
		fprintf(stderr, "recorded, w records anew: memtrace report %s\n", r->path);
	recorder__forget(r);
}

uint64_t recorder__cpu_ns(const struct recorder *r)
{
	return rec_disk__cpu_ns(r->disk);
}

uint64_t recorder__lost(const struct recorder *r, enum mt_loss reason)
{
	uint64_t stalled = r->writer ? rec_writer__stalled(r->writer) : 0;

	if (reason == MT_LOSS_STALLED || !r->writer)
		return stalled;
	return rec_writer__dropped(r->writer) - stalled;
}

/* --- the flight recorder ----------------------------------------------------------------------- */

static void say_written(const char *path, uint64_t span_ns, const char *why)
{
	fprintf(stderr, "wrote %s: the last %.1f s (%s)\n", path, (double)span_ns / 1e9, why);
}

/* The trace is over. */
static int recorder__write_window(struct recorder *r, struct model *m, const char *why, struct err *err)
{
	struct rec_writer_opts o = recorder__writer_opts(r);
	const char *path = r->path;
	char other[4096];
	int ret = window__write(r->window, m, path, &o, 1, err);

	if (ret == -EEXIST && !numbered_path(other, sizeof(other), path)) { /* it was free when the trace began */
		path = other;
		ret = window__write(r->window, m, path, &o, 1, err);
	}
	if (ret < 0)
		return ret;
	/* what was written: by then the oldest frames have gone */
	say_written(path, window__span_ns(r->window), why);
	if (window__cut(r->window))
		log_warn("the disk had no room for more: %llu older events are lost",
			 (unsigned long long)window__cut(r->window));
	return 0;
}

/* The file as it is to be, in memory: a descriptor, or -errno. */
static int recorder__window_in_memory(struct recorder *r, struct model *m, struct err *err)
{
	int fd = dump_memory(), ret;
	struct outfile file = { .fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0), .dir_fd = -1, .lent_fd = -1, .has_name = 1 };
	struct rec_writer_opts o = recorder__writer_opts(r);

	if (file.fd < 0) {
		ret = err_set(err, -errno, "memory for a file of the window: %s", strerror(errno));
	} else {
		o.how.held = &file;
		ret = window__write(r->window, m, r->path, &o, 0, err);
	}
	if (ret >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret;
}

/* Whether one more file of a new peak may be written; that there are too many is printed once. */
static bool recorder__has_peak(struct recorder *r)
{
	if (r->peaks_cnt < WINDOWS_PEAKS && r->windows_cnt < WINDOWS_MAX)
		return true;
	if (!r->peaks_are_reported)
		log_warn("%u files of new peaks were written, and no more will be: of the %d of one trace they may be half",
			 r->peaks_cnt, WINDOWS_MAX);
	r->peaks_are_reported = 1;
	return false;
}

void recorder__dump(struct recorder *r, struct model *m, const char *why)
{
	struct err err = { 0 };
	int fd, ret;

	if (why == new_peak_why && !recorder__has_peak(r))
		return;
	if (r->windows_cnt == WINDOWS_MAX) {
		log_warn("%d files of one trace are the most: nothing written (%s)", WINDOWS_MAX, why);
		return;
	}
	if (r->dump) {
		r->next_why = r->next_why && why == new_peak_why ? r->next_why : why;
		return;
	}
	fd = ret = recorder__window_in_memory(r, m, &err);
	r->dump_span_ns = window__span_ns(r->window);
	r->dump_why = why;
	if (ret >= 0)
		ret = dump__start(&r->dump, fd, r->path, &r->opts.how, &err);
	if (ret < 0)
		log_warn("window not written: %s; %s", err.msg, err.hint);
}

/* Waits until the dump is on the disk or has failed. -ETIMEDOUT: neither yet. */
static int recorder__dumped(struct recorder *r, uint64_t wait_ns)
{
	struct err err = { 0 };
	const char *path;
	int ret = dump__await(r->dump, wait_ns, &path, &err);

	if (ret == -ETIMEDOUT)
		return ret;
	if (ret < 0)
		log_warn("window not written: %s; %s", err.msg, err.hint);
	else
		say_written(path, r->dump_span_ns, r->dump_why);
	r->windows_cnt += ret >= 0;
	r->peaks_cnt += ret >= 0 && r->dump_why == new_peak_why;
	dump__free(r->dump);
	r->dump = NULL;
	return 0;
}

static bool recorder__is_high(struct recorder *r, const struct model *m)
{
	uint64_t now = now_ns(), peak;
	uint8_t dev;

	for (unsigned i = 0; r->new_peak.share > 0 && model__peak(m, i, &dev, &peak); i++)
		new_peak__see(&r->new_peak, dev, peak, now);
	return new_peak__is_over(&r->new_peak, now);
}

static void recorder__tick_window(struct recorder *r, struct model *m)
{
	const char *reason, *next = r->next_why;
	bool is_high = recorder__is_high(r, m);

	if (r->dump)
		(void)recorder__dumped(r, 0);
	if (next && !r->dump) {
		r->next_why = NULL;
		recorder__dump(r, m, next);
	}
	window__tick(r->window, m);
	reason = window__reason(r->window);
	if (reason || is_high)
		recorder__dump(r, m, reason ? reason : new_peak_why);
}

void recorder__tick(struct recorder *r, struct model *m, uint64_t every_ns)
{
	uint64_t now = now_ns();

	if (r->window)
		recorder__tick_window(r, m);
	if (r->writer && now >= r->flushed_ns + every_ns * 9 / 10) { /* timers are not exact */
		recorder__reported(r, rec_writer__flush(r->writer, r->has_failed ? NULL : &r->err));
		r->flushed_ns = now;
	}
}

/* --- the end ----------------------------------------------------------------------------------- */

/*
 * Losses after the session's last report of them. Those of a disk that takes data again go into the file; those of a full
 * disk are in the file's end mark.
 */
static void recorder__tell_lost(struct recorder *r, uint64_t *lost)
{
	uint64_t stalled = recorder__lost(r, MT_LOSS_STALLED);

	if (stalled != lost[MT_LOSS_STALLED])
		(void)rec_writer__add(r->writer, &(struct event){ .ts_ns = r->last_ns, .kind = EV_LOSS, .aux = MT_LOSS_STALLED,
								  .size = stalled }, NULL);
	lost[MT_LOSS_STALLED] = stalled;
	lost[MT_LOSS_RECORDING] = recorder__lost(r, MT_LOSS_RECORDING);
}

/* Before the window's last file: waits for a dump under way. */
static int recorder__close_dump(struct recorder *r)
{
	uint64_t wait_ns = r->opts.disk_wait_ns ? r->opts.disk_wait_ns : DISK_WAIT_NS;

	if (!r->dump || recorder__dumped(r, DISK_QUIET_NS) != -ETIMEDOUT)
		return 0;
	log_warn("the disk of %s takes nothing: waiting for it, %.0f s at most", r->path, (double)wait_ns / 1e9);
	return recorder__dumped(r, wait_ns) == -ETIMEDOUT ? err_set(&r->err, -ETIMEDOUT, "the disk takes nothing") : 0;
}

static int recorder__close_window(struct recorder *r, struct model *m, const char *why)
{
	int ret = recorder__close_dump(r);

	return ret < 0 ? ret : recorder__write_window(r, m, why, &r->err);
}

int recorder__close(struct recorder *r, struct model *m, const char *why, uint64_t *lost, struct err *err)
{
	int ret = r->writer ? rec_writer__flush(r->writer, r->has_failed ? NULL : &r->err) : 0;
	uint64_t nobody_asks[MT_LOSS_MAX] = { 0 };

	lost = lost ? lost : nobody_asks;
	recorder__reported(r, ret);
	if (r->writer) {
		ret = recorder__wait(r, r->has_failed ? NULL : &r->err);
		if (ret != -ETIMEDOUT)
			recorder__reported(r, ret);
		recorder__tell_lost(r, lost);
	}
	ret = r->window ? recorder__close_window(r, m, why) : rec_writer__close(r->writer, &r->err);
	lost[MT_LOSS_RECORDING] += r->window ? window__cut(r->window) : 0;
	if (ret >= 0 || (r->has_failed && ret != -ETIMEDOUT))
		return 0;
	if (err)
		*err = r->err;
	return err_wrap(err, ret, "recording %s", r->path);
}

void recorder__drop(struct recorder *r)
{
	rec_writer__drop(r->writer);
}
