/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Text is handled as code points, a column each, two for the East Asian wide blocks and emoji, none
 * for combining marks: a table instead of wcwidth(3), so that the result does not depend on a locale.
 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SRC_BYTES_MAX 4096 /* most bytes of a string that are used */

struct char_range {
	uint32_t first, last;
};

static int is_in(uint32_t cp, const struct char_range *r, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (cp >= r[i].first && cp <= r[i].last)
			return 1;
	return 0;
}

#define IN(cp, ranges) is_in(cp, ranges, sizeof(ranges) / sizeof((ranges)[0]))

unsigned utf8_cols(uint32_t cp)
{
	static const struct char_range none[] = { { 0x300, 0x36f }, { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff },
						  { 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f } };
	static const struct char_range wide[] = { { 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xac00, 0xd7a3 },
						  { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f }, { 0xff00, 0xff60 },
						  { 0xffe0, 0xffe6 }, { 0x1f300, 0x1faff }, { 0x20000, 0x3fffd } };

	if (cp < 0x300)
		return 1;
	return IN(cp, none) ? 0 : IN(cp, wide) ? 2 : 1;
}

/* buf has room for 4 bytes for each of src. */
static size_t text_safe(char *buf, const char *src)
{
	size_t left = strnlen(src, SRC_BYTES_MAX), out = 0;

	while (left) {
		uint32_t cp;
		size_t n = utf8_decode(src, left, &cp);

		if (cp < 0x20 || cp == 0x7f) {
			out += (size_t)sprintf(buf + out, "\\x%02x", (unsigned)cp);
		} else if ((cp == UTF8_BAD && n == 1) || utf8_is_unsafe(cp)) {
			memcpy(buf + out, "\xef\xbf\xbd", 3);
			out += 3;
		} else {
			memcpy(buf + out, src, n);
			out += n;
		}
		src += n;
		left -= n;
	}
	buf[out] = '\0';
	return out;
}

unsigned text_cols(const char *safe)
{
	size_t left = strlen(safe);
	unsigned cols = 0;

	while (left) {
		uint32_t cp;
		size_t n = utf8_decode(safe, left, &cp);

		cols += utf8_cols(cp);
		safe += n;
		left -= n;
	}
	return cols;
}

/* Bytes of the longest prefix that takes at most `cols` columns and `room` bytes. */
static size_t head_len(const char *safe, size_t len, unsigned cols, size_t room)
{
	size_t at = 0;

	while (at < len) {
		uint32_t cp;
		size_t n = utf8_decode(safe + at, len - at, &cp);

		if (utf8_cols(cp) > cols || at + n > room)
			break;
		cols -= utf8_cols(cp);
		at += n;
	}
	return at;
}

/* Start of the longest suffix of at most `cols` columns and `room` bytes. */
static size_t tail_at(const char *safe, size_t len, unsigned cols, size_t room)
{
	size_t at = len;

	while (at) {
		size_t prev = at - 1;
		uint32_t cp;

		while (prev && ((unsigned char)safe[prev] & 0xc0) == 0x80)
			prev--;
		utf8_decode(safe + prev, len - prev, &cp);
		if (utf8_cols(cp) > cols || len - prev > room)
			break;
		cols -= utf8_cols(cp);
		at = prev;
	}
	return at;
}

/* Keeps `head_cols` columns at the beginning and `tail_cols` at the end. */
static unsigned text_shorten(char *buf, size_t size, const char *src, unsigned cols, unsigned head_cols,
			     unsigned tail_cols)
{
	char safe[4 * SRC_BYTES_MAX + 1];
	size_t len = text_safe(safe, src ? src : ""), room, head, tail;

	if (!cols || size < 16) {
		buf[0] = '\0';
		return 0;
	}
	if (len < size && text_cols(safe) <= cols) {
		memcpy(buf, safe, len + 1);
		return text_cols(buf);
	}
	room = (size - 4) / 2;
	head = head_len(safe, len, head_cols, tail_cols ? room : size - 4);
	tail = tail_at(safe, len, tail_cols, room);
	memcpy(buf, safe, head);
	memcpy(buf + head, "\xe2\x80\xa6", 3);
	memcpy(buf + head + 3, safe + tail, len - tail);
	buf[head + 3 + len - tail] = '\0';
	return text_cols(buf);
}

/* A text that is too long first loses a prefix that many others share. Returns the rest of src. */
static const char *without_common(const char *src, unsigned cols)
{
	static const char *const common[] = { "inductor: ", "extern_kernels." };
	char safe[4 * SRC_BYTES_MAX + 1];

	for (size_t i = 0; src && i < sizeof(common) / sizeof(*common); i++) {
		size_t len = strlen(common[i]);

		if (strncmp(src, common[i], len))
			continue;
		text_safe(safe, src);
		if (text_cols(safe) > cols && src[len])
			src += len;
	}
	return src;
}

unsigned text_fit(char *buf, size_t size, const char *src, unsigned cols)
{
	return text_shorten(buf, size, without_common(src, cols), cols, cols / 2, cols ? cols - 1 - cols / 2 : 0);
}

/* A word of a path, without the dot or blank after it. */
struct path_part {
	size_t at, len;
	unsigned cols, shown; /* shown < cols: "…" is its last column */
	int is_number;
};

#define PARTS_MAX 64
#define LIST_COLS_MIN 28 /* with less there is no room for the list and the text before it */

static unsigned split(const char *safe, struct path_part *parts)
{
	unsigned cnt = 0;

	for (size_t at = 0; cnt < PARTS_MAX; cnt++) {
		struct path_part *p = &parts[cnt];
		char word[4 * SRC_BYTES_MAX + 1];

		*p = (struct path_part){ .at = at, .len = strcspn(safe + at, ". ") };
		memcpy(word, safe + at, p->len);
		word[p->len] = '\0';
		p->shown = p->cols = text_cols(word);
		p->is_number = p->len == strspn(word, "0123456789");
		at += p->len;
		if (!safe[at++])
			return cnt + 1;
	}
	return 0;
}

/* False: too many words to shorten them. */
static int trim(struct path_part *parts, unsigned cnt, unsigned all, unsigned cols)
{
	for (; all > cols; all--) {
		struct path_part *longest = NULL;

		for (unsigned i = 0; i < cnt; i++)
			if (!parts[i].is_number && parts[i].shown > 2 && (!longest || parts[i].shown > longest->shown))
				longest = &parts[i];
		if (!longest)
			return 0;
		longest->shown--;
	}
	return 1;
}

unsigned text_fit_path(char *buf, size_t size, const char *src, unsigned cols)
{
	const char *rest = without_common(src ? src : "", cols);
	char safe[4 * SRC_BYTES_MAX + 1];
	struct path_part parts[PARTS_MAX];
	size_t len = text_safe(safe, rest), out = 0;
	unsigned all = text_cols(safe), cnt = all > cols && len + 3 * PARTS_MAX < size ? split(safe, parts) : 0;

	if (all > cols && cols >= LIST_COLS_MIN && strstr(safe, ", "))
		return text_cut(buf, size, rest, cols);
	if (cnt < 2 || strstr(safe, ", ") || !trim(parts, cnt, all, cols))
		return text_fit(buf, size, rest, cols);
	for (unsigned i = 0; i < cnt; i++) {
		const struct path_part *p = &parts[i];
		size_t keep = p->shown == p->cols ? p->len : head_len(safe + p->at, p->len, p->shown - 1, p->len);

		memcpy(buf + out, safe + p->at, keep);
		out += keep;
		if (keep < p->len) {
			memcpy(buf + out, "\xe2\x80\xa6", 3);
			out += 3;
		}
		if (i + 1 < cnt)
			buf[out++] = safe[p->at + p->len];
	}
	buf[out] = '\0';
	return text_cols(buf);
}

unsigned text_cut(char *buf, size_t size, const char *src, unsigned cols)
{
	return text_shorten(buf, size, without_common(src, cols), cols, cols ? cols - 1 : 0, 0);
}

static char *fmt_3(char *buf, double v, const char *unit)
{
	snprintf(buf, 24, v < 9.995 ? "%.2f %s" : v < 99.95 ? "%.1f %s" : "%.0f %s", v, unit);
	return buf;
}

char *fmt_bytes(char *buf, uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(buf, 24, "%u B", (unsigned)bytes);
		return buf;
	}
	for (; v >= 1023.5 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		v /= 1024;
	return fmt_3(buf, v, units[i]);
}

char *fmt_count(char *buf, double n)
{
	static const char *const units[] = { "k", "M", "G", "T", "P", "E" };
	size_t i = 0;

	if (n < 9999.5) {
		snprintf(buf, 24, n < 9.95 && n != (double)(int)n ? "%.1f" : "%.0f", n);
		return buf;
	}
	for (n /= 1000; n >= 999.5 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		n /= 1000;
	return fmt_3(buf, n, units[i]);
}

char *fmt_ns(char *buf, uint64_t ns)
{
	uint64_t s = ns / 1000000000;

	if (ns < 1000)
		snprintf(buf, 24, "%u ns", (unsigned)ns);
	else if (ns < 999500)
		fmt_3(buf, (double)ns / 1e3, "\xc2\xb5s");
	else if (ns < 999500000)
		fmt_3(buf, (double)ns / 1e6, "ms");
	else if (s < 60)
		fmt_3(buf, (double)ns / 1e9, "s");
	else if (s < 3600)
		snprintf(buf, 24, "%u min %02u s", (unsigned)(s / 60), (unsigned)(s % 60));
	else if (s < 48 * 3600)
		snprintf(buf, 24, "%u h %02u min", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
	else
		snprintf(buf, 24, "%llu d %02u h", (unsigned long long)(s / 86400), (unsigned)(s / 3600 % 24));
	return buf;
}

char *fmt_share(char *buf, double part, double whole)
{
	double v = whole > 0 ? 100 * part / whole : -1;

	if (v < 0)
		snprintf(buf, 24, "-");
	else if (v > 0 && v < 0.05)
		snprintf(buf, 24, "<0.1 %%");
	else
		snprintf(buf, 24, v < 999.95 ? "%.1f %%" : "%.0f %%", v < 1e9 ? v : 1e9);
	return buf;
}

void sentence__add(struct sentence *s, const char *fmt, ...)
{
	size_t room = sizeof(s->text) - s->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(s->text + s->len, room, fmt, ap);
	va_end(ap);
	s->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

char *fmt_time(char *buf, int64_t epoch_ns)
{
	time_t s = (time_t)(epoch_ns / 1000000000);
	struct tm tm;

	if (!gmtime_r(&s, &tm) || !strftime(buf, 24, "%Y-%m-%d %H:%M:%S UTC", &tm))
		snprintf(buf, 24, "?");
	return buf;
}

const char *safe_text(char *buf, const char *src)
{
	text_fit(buf, TEXT_BYTES_MAX, src, TEXT_BYTES_MAX);
	return buf;
}
