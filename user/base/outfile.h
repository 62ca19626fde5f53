/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * outfile: a file that memtrace writes for who asked (base/asker.h).
 *
 * It belongs to the asker and is for the asker alone (0600). It is opened, named and removed with the asker's own rights,
 * though we may be root or have capabilities: what the asker could not write we do not write. The name is never followed if
 * it is a symbolic link, and what is there already is only replaced when that was asked for (force), by a new file: who has
 * the old one open, or by another name, keeps it.
 *
 * A file that must be whole to be of use has no name until outfile__finish: what fails or is killed before leaves
 * nothing, and the old file as it was.
 */
#ifndef MT_BASE_OUTFILE_H
#define MT_BASE_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

struct asker;
struct err;

struct outfile_how {
	const struct asker *asker; /* NULL: ourselves; borrowed */
	int force;		   /* what has that name may be replaced */
	struct outfile *held;	   /* it was opened before, and is this one: taken */
};

enum outfile_kind {
	OUTFILE_WHOLE,	 /* gets its name when it is finished */
	OUTFILE_NAMED,	 /* the same, and has a name till then, for who opens by name: outfile.part */
	OUTFILE_GROWING, /* has its name at once; where an old file has it, from outfile__show on */
};

struct outfile {
	int fd;	       /* to read and write; -1: closed */
	int is_stream; /* it was there and is written to as it is: a pipe, a terminal, /dev/null, /dev/stdout */
	char *path;    /* as given */
	char *part;    /* its name till then; NULL: it has none, or has its own */
	int has_name;  /* path is this file */
	int dir_fd, is_new;
	int lent_fd, lent_pid; /* who names or removes it for us, see outfile__lend; -1: we do */
	struct outfile_how how;
};

/*
 * Where the rights to write it end: the directory that it is made in, or what is there already and is no file (a pipe, a
 * device). NULL: nowhere, it was opened for us or is a link. On the heap.
 */
char *outfile_room(const char *path);
/*
 * 0; or -EEXIST: something has that name, the hint says what to do; -EBUSY: it is being written by another memtrace;
 * -ELOOP: it is a symbolic link; or what open says. *ret is untouched then. /dev/stdout, /dev/stderr and /dev/fd/N are
 * what we were given as these.
 */
int outfile__open(struct outfile *ret, const char *path, enum outfile_kind kind, const struct outfile_how *how,
		  struct err *err);
/*
 * Before we give away rights that it takes to name or remove it: a process that keeps them does that when outfile__finish,
 * outfile__drop or our end say so, and nothing else.
 */
int outfile__lend(struct outfile *f, struct err *err);
/* It gets its name now, before it is finished. 0, or -errno. Nothing if it has it. */
int outfile__show(struct outfile *f, struct err *err);
/* What was written is on the disk, by its name, when this returns 0; else nothing is left of it. Closes it. */
int outfile__finish(struct outfile *f, struct err *err);
/* Instead: it is as it is, and is somebody else's to finish. */
void outfile__leave(struct outfile *f);
/* Its directory, to be synced by who syncs the file; -1: it cannot be read. The caller closes it. */
int outfile__dir(const struct outfile *f);
/* Instead: nothing is left of it; what had the name before has it still, unless outfile__show came first. */
void outfile__drop(struct outfile *f);
/* All of it, at that place. 0 or -errno; some may be written then. */
int outfile_write_at(int fd, const void *data, size_t len, uint64_t off);

#endif
