/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * pprof: profile.proto of google/pprof, gzip as it must be on disk (by the file's writer where the name
 * ends in .gz, else here). A sample is a stack (process, regions, operators) of one category on one
 * device; its values are live bytes at the end, bytes at the device's peak, and bytes and number of
 * all that was allocated. Labels: category, device. A function's file is its kind: process, region,
 * backward, operator. Frames that --stacks recorded are functions with their own file, and a line.
 */
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "event/event.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/export/proto.h"
#include "view/fold/heapsum.h"
#include "view/fold/numbering.h"

enum {
	PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE = 2, PROFILE_LOCATION = 4, PROFILE_FUNCTION = 5, PROFILE_STRINGS = 6,
	PROFILE_TIME = 9, PROFILE_DURATION = 10, PROFILE_PERIOD_TYPE = 11, PROFILE_PERIOD = 12, PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_TYPE = 14,
	TYPE_TYPE = 1, TYPE_UNIT = 2, SAMPLE_LOCATIONS = 1, SAMPLE_VALUES = 2, SAMPLE_LABELS = 3, LABEL_KEY = 1, LABEL_STR = 2,
	LOCATION_ID = 1, LOCATION_LINE = 4, LINE_FUNCTION = 1, LINE_LINE = 2,
	FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILE = 4,
};

/* Strings that are always there; a category is S_CATS + its number, then devices, then names of frames. */
enum {
	S_NONE, S_LIVE, S_AT_PEAK, S_ALLOC_BYTES, S_ALLOC_COUNT, S_BYTES, S_COUNT, S_CATEGORY, S_DEVICE, S_PROCESS, S_REGION,
	S_BACKWARD, S_OPERATOR, S_CUT, S_RECORDER, S_ROOT, S_CATS, S_DEVS = S_CATS + CAT_MAX, S_FRAMES = S_DEVS + 256,
};
static const char *const strings[] = {
	"", "live", "at_peak", "alloc_bytes", "alloc_count", "bytes", "count", "category", "device", "process", "region",
	"backward", "operator", "not known", ("memtrace " MT_VERSION), "stack not kept",
};
_Static_assert(sizeof(strings) / sizeof(strings[0]) == S_CATS, "a string for each");

struct export_ctx {
	struct outbuf o;
	struct proto p;
	struct heapsum *sum;
	struct numbering frames; /* kind and value of a stack's node -> its location, function and string */
	uint64_t frames_cnt; /* different ones */
	const struct export_to *to;
	FILE *pipe; /* to gzip; NULL: to->out itself */
	z_stream z;
	int err, gzip_err;
};

/* --- gzip -------------------------------------------------------------------------------------------- */

static ssize_t gzip_some(struct export_ctx *c, const char *data, size_t len, int flush)
{
	char out[16384];

	c->z.next_in = (Bytef *)data;
	c->z.avail_in = (uInt)len;
	do {
		size_t n;

		c->z.next_out = (Bytef *)out;
		c->z.avail_out = sizeof(out);
		deflate(&c->z, flush);
		n = sizeof(out) - c->z.avail_out;
		errno = 0;
		if (n && fwrite(out, 1, n, c->to->out) != n) {
			c->gzip_err = errno ? -errno : -EIO;
			return 0;
		}
	} while (!c->z.avail_out);
	return (ssize_t)len;
}

static ssize_t on_write(void *cookie, const char *data, size_t len)
{
	return gzip_some(cookie, data, len < 1u << 20 ? len : 1u << 20, Z_NO_FLUSH);
}

static int gzip_begin(struct export_ctx *c)
{
	if (deflateInit2(&c->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	c->pipe = fopencookie(c, "w", (cookie_io_functions_t){ .write = on_write });
	return c->pipe ? 0 : -ENOMEM;
}

static int gzip_end(struct export_ctx *c)
{
	if (!c->pipe)
		return 0;
	if (fclose(c->pipe) && !c->gzip_err)
		c->gzip_err = errno ? -errno : -EIO;
	if (!c->gzip_err)
		gzip_some(c, "", 0, Z_FINISH);
	if (fflush(c->to->out) && !c->gzip_err)
		c->gzip_err = errno ? -errno : -EIO;
	deflateEnd(&c->z);
	c->pipe = NULL;
	return c->gzip_err;
}

/* --- messages ---------------------------------------------------------------------------------------- */

static void flush(struct export_ctx *c, unsigned field)
{
	int r = proto__flush(&c->p, &c->o, field);

	if (r && !c->err)
		c->err = r;
}

static void put_type(struct export_ctx *c, unsigned field, unsigned type, unsigned unit)
{
	proto__u64(&c->p, TYPE_TYPE, type);
	proto__u64(&c->p, TYPE_UNIT, unit);
	flush(c, field);
}

/* Locations and functions have numbers from 1; that of node 0 is the last. */
static uint64_t frame_id(struct export_ctx *c, const struct stack_node *n)
{
	int is_new;

	return numbering__get(&c->frames, (uint64_t)n->kind << 32 | n->value, &is_new) + 1;
}

static void put_label(struct export_ctx *c, unsigned name, unsigned value)
{
	size_t label = proto__open(&c->p, SAMPLE_LABELS);

	proto__u64(&c->p, LABEL_KEY, name);
	proto__u64(&c->p, LABEL_STR, value);
	proto__close(&c->p, label);
}

/* Leaf first. */
static void put_sample(struct export_ctx *c, const struct heap_cell *cell)
{
	const struct stacks *stacks = heapsum__stacks(c->sum);
	size_t part = proto__open(&c->p, SAMPLE_LOCATIONS);
	uint32_t at = cell->stack;

	do {
		proto__varint(&c->p, frame_id(c, stacks__node(stacks, at)));
		at = stacks__node(stacks, at)->parent;
	} while (at);
	proto__close(&c->p, part);
	part = proto__open(&c->p, SAMPLE_VALUES);
	proto__varint(&c->p, cell->live);
	proto__varint(&c->p, cell->at_peak);
	proto__varint(&c->p, cell->alloc_bytes);
	proto__varint(&c->p, cell->alloc_count);
	proto__close(&c->p, part);
	put_label(c, S_CATEGORY, S_CATS + cell->cat);
	put_label(c, S_DEVICE, S_DEVS + cell->dev);
	flush(c, PROFILE_SAMPLE);
}

/* Files of recorded frames come after all names: S_FRAMES, as many names as frames, as many files. */
static uint64_t file_of(const struct export_ctx *c, const struct stack_node *n, uint64_t id)
{
	if (n->kind == STACK_PYTHON || n->kind == STACK_NATIVE)
		return S_FRAMES + c->frames_cnt + id - 1;
	if (n->kind == STACK_CUT)
		return S_CUT;
	return n->kind == STACK_PROCESS ? S_PROCESS : n->kind == STACK_OP ? S_OPERATOR :
	       n->kind == STACK_NODE ? S_BACKWARD : S_REGION;
}

static void put_frame(struct export_ctx *c, const struct stack_node *n, uint64_t id)
{
	size_t line;

	proto__u64(&c->p, LOCATION_ID, id);
	line = proto__open(&c->p, LOCATION_LINE);
	proto__u64(&c->p, LINE_FUNCTION, id);
	if (n->kind == STACK_PYTHON)
		proto__u64(&c->p, LINE_LINE, stacks__frame(heapsum__stacks(c->sum), n)->line);
	proto__close(&c->p, line);
	flush(c, PROFILE_LOCATION);
	proto__u64(&c->p, FUNCTION_ID, id);
	proto__u64(&c->p, FUNCTION_NAME, n->kind == STACK_ROOT ? S_ROOT : S_FRAMES + id - 1);
	proto__u64(&c->p, FUNCTION_FILE, file_of(c, n, id));
	flush(c, PROFILE_FUNCTION);
}

static void put_string(struct export_ctx *c, const char *text, size_t len)
{
	struct proto head = { .buf = (char[20]){ 0 }, .room = 20 };

	proto__varint(&head, PROFILE_STRINGS << 3 | 2);
	proto__varint(&head, len);
	outbuf__put(&c->o, head.buf, head.len);
	outbuf__put(&c->o, text, len);
}

static void put_frame_string(struct export_ctx *c, const struct stack_node *n)
{
	const struct stacks *stacks = heapsum__stacks(c->sum);
	char text[CLEAN_BYTES_MAX];
	size_t len;

	if (n->kind == STACK_PROCESS)
		len = heapsum_process(c->to, n->value, text, sizeof(text));
	else if (n->kind == STACK_PYTHON || n->kind == STACK_NATIVE)
		len = clean_name(text, c->to->names, stacks__frame(stacks, n)->function);
	else
		len = stacks__text(stacks, n, c->to->names, text, sizeof(text));
	put_string(c, text, len);
}

static void put_file_string(struct export_ctx *c, const struct stack_node *n)
{
	char text[CLEAN_BYTES_MAX] = "";
	size_t len = 0;

	if (n->kind == STACK_PYTHON || n->kind == STACK_NATIVE)
		len = clean_name(text, c->to->names, stacks__frame(heapsum__stacks(c->sum), n)->file);
	put_string(c, text, len);
}

/* Each frame once, in the order of its number: the last one put is not known here. */
enum frame_part { FRAME_ITSELF, FRAME_NAME, FRAME_FILE };
static void put_frames(struct export_ctx *c, enum frame_part part)
{
	const struct stacks *stacks = heapsum__stacks(c->sum);
	uint64_t next = 1;

	for (uint32_t i = 0; i < stacks__cnt(stacks); i++) {
		const struct stack_node *n = stacks__node(stacks, i);

		if (frame_id(c, n) != next)
			continue;
		next++;
		if (part == FRAME_NAME)
			put_frame_string(c, n);
		else if (part == FRAME_FILE)
			put_file_string(c, n);
		else
			put_frame(c, n, next - 1);
	}
}

static void put_strings(struct export_ctx *c)
{
	char dev[16];

	for (unsigned i = 0; i < S_CATS; i++)
		put_string(c, strings[i], strlen(strings[i]));
	for (unsigned i = 0; i < CAT_MAX; i++)
		put_string(c, category_name((enum category)i), strlen(category_name((enum category)i)));
	for (unsigned i = 0; i < 256; i++) {
		dev_name((uint8_t)i, dev);
		put_string(c, dev, strlen(dev));
	}
	put_frames(c, FRAME_NAME);
	if (stacks__has_frames(heapsum__stacks(c->sum)))
		put_frames(c, FRAME_FILE);
}

static void put_all(struct export_ctx *c, const struct report *r)
{
	const struct stacks *stacks = heapsum__stacks(c->sum);
	const struct heap_cell *cells;
	size_t cnt;

	heapsum__end(c->sum);
	cells = heapsum__cells(c->sum, &cnt);
	put_type(c, PROFILE_SAMPLE_TYPE, S_LIVE, S_BYTES);
	put_type(c, PROFILE_SAMPLE_TYPE, S_AT_PEAK, S_BYTES);
	put_type(c, PROFILE_SAMPLE_TYPE, S_ALLOC_BYTES, S_BYTES);
	put_type(c, PROFILE_SAMPLE_TYPE, S_ALLOC_COUNT, S_COUNT);
	for (uint32_t i = 0; i < stacks__cnt(stacks); i++) { /* numbers in the order of the nodes */
		uint64_t id = frame_id(c, stacks__node(stacks, i));

		c->frames_cnt = id > c->frames_cnt ? id : c->frames_cnt;
	}
	for (size_t i = 0; i < cnt; i++)
		if (cells[i].live || cells[i].at_peak || cells[i].alloc_count)
			put_sample(c, &cells[i]);
	put_frames(c, FRAME_ITSELF);
	put_strings(c);
	put_type(c, PROFILE_PERIOD_TYPE, S_AT_PEAK, S_BYTES);
	proto__u64(&c->p, PROFILE_TIME, r->run.start_ts_ns + (uint64_t)r->run.epoch_off_ns);
	proto__u64(&c->p, PROFILE_DURATION, r->run.end_ts_ns - r->run.start_ts_ns);
	proto__u64(&c->p, PROFILE_PERIOD, 1);
	proto__u64(&c->p, PROFILE_COMMENT, S_RECORDER);
	proto__u64(&c->p, PROFILE_DEFAULT_TYPE, S_AT_PEAK);
	if (!c->p.err)
		outbuf__put(&c->o, c->p.buf, c->p.len);
	else
		c->err = c->p.err;
}

static void done(struct export_ctx *c)
{
	gzip_end(c);
	heapsum__free(c->sum);
	numbering__done(&c->frames);
	proto__done(&c->p);
	outbuf__done(&c->o);
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	int r = 0;

	c->to = to;
	if (!export_is_gzip(to->path))
		r = gzip_begin(c);
	c->sum = heapsum__new(to);
	return r || !c->sum || outbuf__init(&c->o, c->pipe ? c->pipe : to->out) ? -ENOMEM : 0;
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return heapsum__event(c->sum, ev);
}

static int end(struct export_ctx *c, const struct report *r)
{
	int err, e;

	if (r)
		put_all(c, r);
	err = outbuf__flush(&c->o);
	e = gzip_end(c);
	return err ? err : c->err ? c->err : e;
}

const struct export_format export_pprof = {
	.name = "pprof",
	.help = "a heap profile for `go tool pprof`: live, at_peak, alloc_bytes, alloc_count by stack, category, device",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_GAPS | EXPORT_BINARY | EXPORT_PART,
	.size = sizeof(struct export_ctx),
	.writes_itself = 1,
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
