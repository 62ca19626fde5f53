/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * table: a table is its columns, a line each, and a view's rows. The same line has a cell's key in JSON, its place in the
 * report for people and in the terminal interface, and how it is read from the row.
 *
 * A cell is a field of the row (OF), or the result of a function (VIA). In JSON columns stand in the order of their
 * lines, elsewhere in the order of their places: a column without a place is not shown there, one without a key not in JSON.
 */
#ifndef MT_VIEW_TABLE_H
#define MT_VIEW_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct json;
struct page;
struct report;

enum column_kind {
	/* to the left */
	COL_TEXT,
	COL_OR_NULL, /* a text; null in JSON where it is empty */
	COL_DEV,     /* enum mt_dev */
	COL_CAT,     /* enum category */
	COL_HEX,
	/* to the right */
	COL_BYTES,
	COL_COUNT,
	COL_NUMBER,
	COL_NS,
	COL_SHARE, /* of the whole, as BAR; for people alone */
	COL_BAR,
	/* JSON's alone */
	COL_BOOL,
	COL_SIGNED,
	COL_TIME,    /* of an event: since the epoch, 0 stays 0 */
	COL_REAL,
	COL_AVERAGE, /* json__average */
};

enum drawn_as { AS_JSON, AS_TEXT, AS_TUI };

/* The form and the source of a table. */
struct drawn {
	const struct report *r; /* may be NULL where no column asks for it */
	enum drawn_as as;
	int64_t epoch_off_ns;
	uint64_t whole; /* the whole of shares and bars */
	const void *of; /* for the table's own functions */
	unsigned index; /* of ELEMENT */
	unsigned width; /* AS_TEXT: of the page */
	const void *rows; /* AS_TEXT: of a whole array */
	size_t rows_cnt, row_size;
	uint8_t is_then; /* AS_TUI: r is of a moment that is held, not of the end */
};

/* There is no such value: "-" for people, and in JSON no key, null, or the number. */
enum cell_none { NONE_LEFT_OUT = 1, NONE_NULL, NONE_REPORTED };

struct cell {
	const struct drawn *d;
	const char *text; /* or a text for people in place of a number */
	uint64_t num;
	double real;	/* REAL and AVERAGE */
	uint64_t whole; /* of SHARE and BAR: the table's */
	uint8_t none;	/* enum cell_none */
	char buf[2 * TEXT_BYTES_MAX]; /* text may be here */
};

struct column_place {
	uint8_t place; /* from 1; 0: not shown there */
	uint8_t cols;  /* width; of a wide column the least */
	uint16_t from; /* shown if the screen or page has this many columns or more */
	uint8_t wide;  /* its part of spare width, 0: none */
	uint8_t gap;   /* text: blanks before it */
	uint8_t most;  /* text, of a whole array: as wide as its widest cell, from cols to this; 0: cols */
	const char *head; /* other than the column's */
	uint8_t stays;	  /* terminal interface: if it is too narrow others are left out first */
};

struct column {
	const char *key;  /* in JSON, a contract; NULL: not there */
	const char *head; /* for people */
	uint8_t kind;	  /* enum column_kind */
	uint8_t size;	  /* of the field, and where in the row it is … */
	uint16_t at;
	uint8_t is_element;				/* … plus that times the index; … */
	uint8_t is_inside;				/* a text that is in the row, not behind a pointer; … */
	const char *(*name)(unsigned num);		/* … or the name of the number there; … */
	void (*via)(struct cell *c, const void *row);	/* … or the function that makes the cell */
	uint16_t if_at;					/* where this field is 0 or NULL, … */
	uint8_t if_size, if_none;			/* … the cell is none of this kind; 0: never */
	void (*json)(struct json *j, const char *key, const struct drawn *d, const void *row); /* of more than one value */
	int (*shown_if)(const struct drawn *d);	 /* to people; NULL: always */
	unsigned (*cols)(const struct drawn *d); /* text: its width, where it is not always the same */
	uint8_t is_path;			 /* too long a text is cut as a path (base/text.h) */
	uint8_t is_begin;			 /* too long a text loses its end, not its middle */
	uint8_t is_bold;			 /* text: its cells */
	uint8_t only;				 /* in tables with one of these bits in `variant`; 0: in all of these columns */
	struct column_place text, tui;
};

#define OF(type, field) .at = offsetof(struct type, field), .size = sizeof(((struct type *)0)->field)
#define ELEMENT(type, array) .is_element = 1, .at = offsetof(struct type, array), .size = sizeof(((struct type *)0)->array[0])
#define IN_ROW(type, field) .is_inside = 1, .at = offsetof(struct type, field)
#define NAMED(function) .name = function
#define VIA(function) .via = function
#define IF_AT(type, field) .if_at = offsetof(struct type, field), .if_size = sizeof(((struct type *)0)->field)
#define IF(type, field) IF_AT(type, field), .if_none = NONE_LEFT_OUT
#define OR_NULL_IF_NOT(type, field) IF_AT(type, field), .if_none = NONE_NULL
#define REPORTED_IF(type, field) IF_AT(type, field), .if_none = NONE_REPORTED
#define TEXT(...) .text = { __VA_ARGS__ } /* place, cols, from, wide, gap, most, head, stays */
#define TUI(...) .tui = { __VA_ARGS__ }

#define TABLE_SHOWN_MAX 16 /* columns for people */

struct table {
	const struct column *cols;
	unsigned cnt;
	int8_t spare;	   /* text: columns that stay empty at a line's end; < 0: that stand out of a page without a terminal */
	uint8_t is_sparse; /* text: no bytes are "-" */
	uint8_t is_untitled; /* text: its heads are its title: bold, after an empty line; nothing is indented */
	uint8_t variant;   /* bits of its own: several tables may share columns */
};

/* After the columns' name: the fields that are not 0. */
#define TABLE(columns, ...) { .cols = columns, .cnt = sizeof(columns) / sizeof((columns)[0]), ##__VA_ARGS__ }

struct drawn drawn_as(enum drawn_as as, const struct report *r);
/* shown_if: columns that are of a held moment alone, and those that are not. */
int drawn_then(const struct drawn *d);
int drawn_at_end(const struct drawn *d);
/* A text of its own for a cell. */
void cell__say(struct cell *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cell__get(struct cell *c, const struct column *col, const struct drawn *d, const void *row);
/* A number for people; buf at least 24 bytes. */
const char *column__words(const struct column *col, uint64_t num, uint64_t whole, char *buf);
int column__is_left(const struct column *col);
/* The columns that are shown, in order of their places; returns how many. */
unsigned table__shown(const struct table *t, const struct drawn *d, const struct column *shown[TABLE_SHOWN_MAX]);

/* --- text ------------------------------------------------------------------------------------------------ */

struct table_lines {
	struct page *p;
	const struct drawn *d;
	const struct column *cols[TABLE_SHOWN_MAX];
	unsigned widths[TABLE_SHOWN_MAX], cnt, indent;
	uint8_t is_sparse;
};

/* Writes the line of heads. All is borrowed until the last row; d gets the page's width. */
void table_lines__begin(struct table_lines *l, struct page *p, const struct table *t, struct drawn *d);
void table_lines__row(struct table_lines *l, const void *row);
void table_lines__cells(struct table_lines *l, const void *row); /* and the line goes on */
/* The whole of an array. */
void table__text(struct page *p, const struct table *t, struct drawn *d, const void *rows, size_t cnt, size_t size);

/* The same as a table of Markdown, with a line above it. */
void table_md__begin(struct table_lines *l, struct page *p, const struct table *t, struct drawn *d);
void table_md__row(struct table_lines *l, const void *row);

/* --- JSON ------------------------------------------------------------------------------------------------ */

/* The fields of the object that is open. */
void table__fields(struct json *j, const struct table *t, const struct drawn *d, const void *row);
/* An object on one line. */
void table__object(struct json *j, const char *key, const struct table *t, const struct drawn *d, const void *row);
/* An array of them. */
void table__list(struct json *j, const char *key, const struct table *t, const struct drawn *d, const void *rows, size_t cnt,
		 size_t size);

#endif
