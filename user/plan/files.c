/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * All bytes are foreign. A file that cannot be read to its end within its bounds (target/elf.h) is left out as a whole, and so
 * are further files once a process has used its share: the plan has their number and the first names.
 */
#include "plan/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* A process's share: more than twenty processes with torch need. */
#define READ_MAX (4ull << 30)
#define CPU_NS_MAX 10000000000ull
/* Files kept open between the reading of facts and the planning, so that they are not read twice. */
#define KEPT_BYTES_MAX (64u << 20)
#define FDS_MAX 256

/* --- opening --------------------------------------------------------------------------------------- */

void builder__left_out(struct builder *b, const char *file, const char *why)
{
	b->plan->files_left_out++;
	if (b->plan->files_left_out <= PLAN_NOTES_MAX / 4)
		builder__note(b, "%s is left out: %s", file, why);
}

void builder__close_elf(struct builder *b, struct open_lib *o)
{
	if (!o->elf)
		return;
	b->kept_bytes -= o->kept_bytes;
	elf__free(o->elf);
	o->elf = NULL;
}

void builder__close_all(struct builder *b)
{
	for (size_t i = 0; i < b->opened_cnt; i++) {
		builder__close_elf(b, &b->opened[i]);
		if (b->opened[i].is_asked && b->opened[i].fd >= 0)
			close(b->opened[i].fd);
	}
	free(b->opened);
	b->opened = NULL;
}

static int builder__has_share(struct builder *b)
{
	if (b->stop && __atomic_load_n(b->stop, __ATOMIC_RELAXED))
		return 0;
	if (!b->cpu_from_ns)
		b->cpu_from_ns = cpu_ns();
	return b->read_bytes < READ_MAX && cpu_ns() - b->cpu_from_ns < CPU_NS_MAX;
}

int builder__open_elf(struct builder *b, const struct lib *lib, int fd, struct elf **ret, struct err *err)
{
	int again;

	if (!builder__has_share(b))
		return -EDQUOT;
	again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (again < 0)
		return err_set(err, -errno, "opening %s: %s", lib->path, strerror(errno));
	return elf__open(ret, again, lib->path, err);
}

/* For a file, in this state, that is seen for the first time. */
static int open_lib__learn(struct open_lib *o, struct builder *b, const struct lib *lib)
{
	struct elf_stamp stamp;
	struct elf *e;
	int r = builder__open_elf(b, lib, o->fd, &e, &o->why);

	if (r < 0)
		return r;
	elf__stamp(e, &stamp);
	o->file = plan_cache__add(b->cache, &stamp, lib->base, lib->is_exe);
	if (!o->file) {
		elf__free(e);
		return -ENOMEM;
	}
	file_facts__learn(&o->file->facts, b->sources, lib, e);
	if (elf__failed(e, &o->file->why) == -ESTALE)
		o->file->is_lasting = 0;
	b->read_bytes += elf__read_bytes(e);
	if (b->kept_bytes + elf__read_bytes(e) > KEPT_BYTES_MAX || o->file->why) {
		elf__free(e);
		return 0;
	}
	o->elf = e;
	o->kept_bytes = elf__read_bytes(e);
	b->kept_bytes += o->kept_bytes;
	return 0;
}

int open_lib__ask(struct open_lib *o, struct builder *b, const struct lib *lib)
{
	struct elf_stamp stamp;
	int r;

	o->fd = target__open_lib(b->target, lib, &o->why);
	if (o->fd < 0)
		return o->fd;
	r = elf_stamp__of(o->fd, &stamp);
	if (r < 0)
		return r;
	o->file = plan_cache__find(b->cache, &stamp, lib->base, lib->is_exe);
	return o->file ? 0 : open_lib__learn(o, b, lib);
}

struct open_lib *builder__lib(struct builder *b, const struct lib *lib)
{
	const struct lib *libs;
	size_t cnt = target__libs(b->target, &libs);
	struct open_lib *o;

	if (!b->opened) {
		b->opened = calloc(cnt + 1, sizeof(*b->opened));
		b->opened_cnt = b->opened ? cnt : 0;
	}
	if (!b->opened)
		return NULL;
	o = &b->opened[lib - libs];
	if (o->is_asked)
		return o;
	o->is_asked = 1;
	o->r = open_lib__ask(o, b, lib);
	if (o->fd >= 0 && ++b->fds_cnt > FDS_MAX) { /* opened again when it is planned */
		builder__close_elf(b, o);
		close(o->fd);
		o->fd = -1;
	}
	return o;
}

const struct file_facts *builder__facts(struct builder *b, const struct lib *lib)
{
	const struct open_lib *o = builder__lib(b, lib);

	return o && !o->r && !o->file->why ? &o->file->facts : NULL;
}
