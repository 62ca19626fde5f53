/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* number × unit, within what 64 bits hold. */
static int scaled(const char *text, double unit, uint64_t *ret)
{
	double v = strtod(text, NULL) * unit;

	if (!isdigit((unsigned char)text[0]) || !(v >= 0) || v >= 18446744073709551615.0)
		return -EINVAL;
	*ret = (uint64_t)round(v); /* 4.220106873 s is a nanosecond less as a double */
	return 0;
}

/* Digits with at most one point: infinity, hexadecimal and signs, which strtod takes, are refused. */
static const char *number_end(const char *text)
{
	const char *p = text + strspn(text, "0123456789");

	if (*p == '.')
		p += 1 + strspn(p + 1, "0123456789");
	return isdigit((unsigned char)text[0]) ? p : text;
}

int parse_size(const char *text, uint64_t *ret, struct err *err)
{
	static const char units[] = "KMGT";
	const char *end = number_end(text), *u;
	double unit = 1;
	uint64_t v;

	u = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (u) {
		unit = (double)(1ull << (10 * (u - units + 1)));
		end++;
		if (!strcmp(end, "iB") || !strcmp(end, "B"))
			end += strlen(end);
	}
	if (*end || scaled(text, unit, &v)) {
		err_set(err, -EINVAL, "'%.100s' is not a size", text);
		err_hint(err, "bytes, or with K, M or G: 4096, 512K, 64M, 1.5G");
		return -EINVAL;
	}
	*ret = v;
	return 0;
}

int parse_duration(const char *text, uint64_t *ret, struct err *err)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1e9 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 } };
	const char *end = number_end(text);
	uint64_t v;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].name) && !scaled(text, units[i].ns, &v)) {
			*ret = v;
			return 0;
		}
	err_set(err, -EINVAL, "'%.100s' is not a time", text);
	err_hint(err, "seconds, or with a unit: 10, 0.5, 500ms, 2m, 1h");
	return -EINVAL;
}

int parse_number(const char *text, uint64_t max, uint64_t *ret, struct err *err)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || v > max)
		return err_set(err, -EINVAL, "'%.100s' is not a number from 0 to %llu", text, (unsigned long long)max);
	*ret = v;
	return 0;
}
