/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * outfile: a file that memtrace writes for its user (base/asker.h).
 *
 * It belongs to the asker and is only for the asker (0600). It is opened, named and removed with the asker's own rights, though
 * we may be root or have capabilities: what the asker could not write we do not write. The name is never followed if it is a
 * symbolic link, and an existing file is only replaced on request (force), by a new file: a process that has the old one open,
 * or another name of it, keeps it.
 *
 * A file that is only useful as a whole has no name until outfile__finish: a failure or a kill before that leaves nothing, and
 * the old file unchanged.
 */
#ifndef MT_BASE_OUTFILE_H
#define MT_BASE_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

struct asker;
struct err;

struct outfile_how {
	const struct asker *asker; /* NULL: ourselves; borrowed */
	int force;		   /* an existing file of that name may be replaced */
	struct outfile *held;	   /* the same file, opened before: taken over */
};

enum outfile_kind {
	OUTFILE_WHOLE,	 /* gets its name when it is finished */
	OUTFILE_NAMED,	 /* the same, with a name until then, for programs that open by name: outfile.part */
	OUTFILE_GROWING, /* has its name at once; if an old file has it, from outfile__show on */
};

struct outfile {
	int fd;	       /* to read and write; -1: closed */
	int is_stream; /* it existed and is written to unchanged: a pipe, a terminal, /dev/null, /dev/stdout */
	char *path;    /* as given */
	char *part;    /* its name until then; NULL: none, or its own */
	int has_name;  /* path names this file */
	int dir_fd, is_new;
	int lent_fd, lent_pid; /* the process that names or removes it for us, see outfile__lend; -1: we do */
	struct outfile_how how;
};

/*
 * The limit of the rights needed to write it: the directory that it is made in, or an existing pipe or device. NULL: none, it
 * was opened for us or is a link. On the heap.
 */
char *outfile_room(const char *path);
/*
 * 0; or -EEXIST: the name exists, the hint says what to do; -EBUSY: it is being written by another memtrace; -ELOOP: it is a
 * symbolic link; or open's errors. *ret is untouched then. /dev/stdout, /dev/stderr and /dev/fd/N are the descriptors that we
 * were given as these.
 */
int outfile__open(struct outfile *ret, const char *path, enum outfile_kind kind, const struct outfile_how *how,
		  struct err *err);
/*
 * Call it before we give away rights that are needed to name or remove it: a process that keeps them does only that, on
 * outfile__finish, outfile__drop or our end.
 */
int outfile__lend(struct outfile *f, struct err *err);
/* Gives it its name now, before it is finished. 0, or -errno. Does nothing if it has it. */
int outfile__show(struct outfile *f, struct err *err);
/* 0: the content is on the disk, under its name; else nothing is left of it. Closes it. */
int outfile__finish(struct outfile *f, struct err *err);
/* Instead: leaves it as it is, for another process to finish. */
void outfile__leave(struct outfile *f);
/* Its directory, for the caller to sync after the file, and to close; -1: it cannot be read. */
int outfile__dir(const struct outfile *f);
/* Instead: nothing is left of it; an old file keeps the name, unless outfile__show came first. */
void outfile__drop(struct outfile *f);
/* Writes all of it, at that place. 0 or -errno; some may be written then. */
int outfile_write_at(int fd, const void *data, size_t len, uint64_t off);

#endif
