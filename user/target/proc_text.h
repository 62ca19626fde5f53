/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * proc_text: the text formats of /proc, parsed from memory. No I/O, so that all of it can be fuzzed.
 *
 * The process chooses its own names, arguments, environment and file names, so every byte here is
 * hostile. Nothing is modified, nothing allocated; pointers in results go into the caller's text.
 */
#ifndef MT_TARGET_PROC_TEXT_H
#define MT_TARGET_PROC_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define MAPS_BYTES_MAX (64u << 20) /* of /proc/PID/maps: 65,530 mappings of 1,000 bytes each */

/* One line of maps. */
struct maps_line {
	uint64_t start, end; /* start < end */
	uint64_t off;
	uint64_t dev; /* as makedev() */
	uint64_t ino; /* 0 = no file */
	int exec;
	int is_shared;
	int is_closed; /* neither readable, writable nor executable: reserved address space */
	int deleted;	  /* path ended in " (deleted)", which is cut off */
	const char *path; /* escaped by the kernel: \012 for a newline; not terminated */
	size_t path_len;  /* 0 = none */
};

/* One line without its newline: 0, or -EINVAL for anything that the kernel would not write. */
int maps_line_parse(const char *line, size_t len, struct maps_line *ret);
/*
 * Calls fn for each good line of a whole file; a last line without newline is taken to be cut and
 * ignored. fn != 0 stops and is returned. Bad lines are skipped; *ret_bad (may be NULL) counts them.
 */
int maps_each(const char *text, size_t len, int (*fn)(void *ctx, const struct maps_line *line), void *ctx,
	      size_t *ret_bad);
/* Undoes the kernel's \ooo escapes; returns the length, cut to size - 1, and NUL-terminates. */
size_t maps_path_unescape(const char *path, size_t len, char *buf, size_t size);

/* The fields of /proc/PID/stat that we use. */
struct proc_stat {
	char comm[64];
	char state;
	int ppid;
	uint64_t utime_ticks, stime_ticks;
	uint64_t threads;
	uint64_t start_ticks;
	uint64_t rss_pages;
};

uint64_t proc_ticks_ns(uint64_t ticks); /* ticks of /proc in ns */
int proc_stat_parse(const char *text, size_t len, struct proc_stat *ret);

/* Does the first line that begins with `line` contain that word? The text ends with a NUL. */
int proc_line_has_word(const char *text, const char *line, const char *word);

/* NUL-separated arguments → one line, blanks between, control characters as '?'. Returns its length. */
size_t cmdline_join(const char *text, size_t len, char *buf, size_t size);

/*
 * Walks NUL-separated NAME=value strings and passes on those that identify a member of a distributed job (RANK, LOCAL_RANK,
 * SLURM_PROCID …). An unterminated last one is ignored.
 */
int environ_labels(const char *text, size_t len, int (*fn)(void *ctx, const char *label), void *ctx);

#endif
