/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/accept.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct header_part {
	const char *at;
	size_t len;
};

static struct header_part trim(struct header_part p)
{
	while (p.len && strchr(" \t", p.at[0])) {
		p.at++;
		p.len--;
	}
	while (p.len && strchr(" \t", p.at[p.len - 1]))
		p.len--;
	return p;
}

/* The text up to `sep`, taken off the front of *rest. A separator inside quotes is none. */
static struct header_part cut(struct header_part *rest, char sep)
{
	struct header_part p = { rest->at, 0 };
	int is_quoted = 0;

	while (p.len < rest->len && (is_quoted || rest->at[p.len] != sep))
		is_quoted ^= rest->at[p.len++] == '"';
	rest->at += p.len + (p.len < rest->len);
	rest->len -= p.len + (p.len < rest->len);
	return trim(p);
}

static int is(struct header_part p, const char *word)
{
	return p.len == strlen(word) && !strncasecmp(p.at, word, p.len);
}

static struct header_part unquoted(struct header_part p)
{
	if (p.len >= 2 && p.at[0] == '"' && p.at[p.len - 1] == '"')
		return (struct header_part){ p.at + 1, p.len - 2 };
	return p;
}

/* "0.5" is 500; anything else counts as 0, and is never chosen. */
static int thousandths(struct header_part p)
{
	int v = 0, unit = 1000;

	if (!p.len || (p.at[0] != '0' && p.at[0] != '1') || (p.len > 1 && p.at[1] != '.') || p.len > 5)
		return 0;
	v = (p.at[0] - '0') * unit;
	for (size_t i = 2; i < p.len; i++) {
		if (p.at[i] < '0' || p.at[i] > '9')
			return 0;
		unit /= 10;
		v += (p.at[i] - '0') * unit;
	}
	return v > 1000 ? 0 : v;
}

/* The q of a form that a client accepts, from its parameters, by name. */
static int quality(struct header_part params)
{
	int q = 1000;

	while (params.len) {
		struct header_part param = cut(&params, ';'), name = cut(&param, '=');

		if (is(name, "q"))
			q = thousandths(trim(param));
	}
	return q;
}

/* Of one range: the forms that it covers as bits, and its q. */
static unsigned covers(struct header_part range, int *ret_q)
{
	struct header_part type = cut(&range, ';'), version = { "", 0 };
	unsigned both = 1u << METRICS_OPENMETRICS | 1u << METRICS_TEXT;

	*ret_q = quality(range);
	while (range.len) {
		struct header_part param = cut(&range, ';'), name = cut(&param, '=');

		if (is(name, "version"))
			version = unquoted(trim(param));
	}
	if (is(type, "application/openmetrics-text"))
		return !version.len || is(version, "1.0.0") || is(version, "0.0.1") ? 1u << METRICS_OPENMETRICS : 0;
	if (is(type, "text/plain"))
		return !version.len || is(version, "0.0.4") ? 1u << METRICS_TEXT : 0;
	if (is(type, "text/*"))
		return 1u << METRICS_TEXT;
	if (is(type, "application/*"))
		return 1u << METRICS_OPENMETRICS;
	return is(type, "*/*") ? both : 0;
}

enum metrics_form accept_form(const char *header)
{
	struct header_part rest = { header ? header : "", header ? strlen(header) : 0 };
	int best[2] = { 0, 0 };

	while (rest.len) {
		int q;
		unsigned forms = covers(cut(&rest, ','), &q);

		for (unsigned f = 0; f < 2; f++)
			if (forms & 1u << f && q > best[f])
				best[f] = q;
	}
	/* A wildcard does not ask for the newer one: browsers and curl send it. */
	return best[METRICS_OPENMETRICS] > best[METRICS_TEXT] ? METRICS_OPENMETRICS : METRICS_TEXT;
}

int accept_gzip(const char *header)
{
	struct header_part rest = { header ? header : "", header ? strlen(header) : 0 };
	int named = -1, any = 0;

	while (rest.len) {
		struct header_part range = cut(&rest, ','), coding = cut(&range, ';');

		if (is(coding, "gzip") || is(coding, "x-gzip"))
			named = quality(range);
		else if (is(coding, "*"))
			any = quality(range);
	}
	return (named >= 0 ? named : any) > 0;
}
