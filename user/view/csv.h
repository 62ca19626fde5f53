/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * CSV as RFC 4180 has it: a header line, CRLF, fields quoted where they must be.
 *
 * Names are the traced process's, and a spreadsheet runs a cell that begins with = + - or @ as a formula. Such a name has a
 * ' before it, which spreadsheets do not show. A name that begins with ' has one more: a reader always takes one away.
 */
#ifndef MT_VIEW_CSV_H
#define MT_VIEW_CSV_H

#include <stddef.h>

struct drawn;
struct outbuf;
struct table;

void csv_quote(struct outbuf *o, const char *text, size_t len);
/*
 * The whole of an array: JSON's columns, under its names, without those of more than one value, and numbers that only
 * people are shown, under the heads of their columns ("at_peak"). A value that a row lacks is empty.
 */
void table__csv(struct outbuf *o, const struct table *t, const struct drawn *d, const void *rows, size_t cnt, size_t size);

#endif
