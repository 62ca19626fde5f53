/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A file that is cut or overwritten between two questions. The first bytes of the input say where and how; what follows
 * is the file. Whatever is answered, names that were given out before stay as they were.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/elf.h"
#include "target/elf_cfi.h"

struct change {
	uint32_t at, questions; /* before it */
	uint8_t how, byte;
};

struct asker {
	const struct elf *e;
	int fd;
	struct change c;
	char *kept;
	const char *kept_at;
	unsigned left;
};

static void require(int cond)
{
	if (!cond)
		abort();
}

static void change_now(struct asker *a)
{
	char bytes[256];
	off_t end = lseek(a->fd, 0, SEEK_END), at = end ? (off_t)(a->c.at % (uint64_t)end) : 0;

	memset(bytes, a->c.byte, sizeof(bytes));
	if (a->c.how & 1)
		(void)!ftruncate(a->fd, at);
	if (a->c.how & 2)
		(void)!pwrite(a->fd, bytes, sizeof(bytes), at);
	if (a->c.how & 4)
		(void)!ftruncate(a->fd, end);
}

static int each_symbol(void *arg, const struct elf_sym *sym)
{
	struct asker *a = arg;
	size_t len;

	if (!a->kept) {
		a->kept_at = sym->name;
		a->kept = strdup(sym->name);
	}
	if (!a->c.questions--)
		change_now(a);
	(void)elf__code(a->e, sym, &len);
	return !--a->left;
}

static int each_code(void *arg, const struct elf_code *code)
{
	struct asker *a = arg;
	struct cfi_row row;

	(void)elf__cfi(a->e, code->vaddr, &row);
	(void)elf__name_at(a->e, code->name_at);
	return !--a->left;
}

static int each_local(void *arg, size_t name, const struct elf_sym *sym)
{
	(void)arg;
	require(name < 2 && sym->name);
	return 0;
}

static int each_note(void *arg, const struct sdt_note *note)
{
	struct asker *a = arg;

	if (!a->c.questions--)
		change_now(a);
	(void)(strlen(note->provider) + strlen(note->name) + strlen(note->args));
	return !--a->left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "main", "second" };
	struct asker a = { .left = 500 };
	const uint8_t *bytes;
	struct elf_sym sym;
	struct elf *e;
	uint64_t vaddr;
	size_t len;

	if (size < sizeof(a.c))
		return 0;
	memcpy(&a.c, data, sizeof(a.c));
	a.c.questions %= 64;
	a.fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(a.fd >= 0 && write(a.fd, data + sizeof(a.c), size - sizeof(a.c)) == (ssize_t)(size - sizeof(a.c)));
	if (elf__open(&e, fcntl(a.fd, F_DUPFD_CLOEXEC, 0), "fuzz", NULL) == 0) {
		a.e = e;
		(void)elf__each_symbol(e, each_symbol, &a);
		(void)elf__each_sdt_note(e, each_note, &a);
		(void)elf__each_code(e, each_code, &a);
		(void)elf__find_locals(e, names, 2, each_local, &a);
		(void)elf__find_symbol(e, "malloc", &sym);
		if (elf__section(e, ".rodata", &bytes, &len, &vaddr) == 0 && len)
			(void)*(volatile const uint8_t *)(bytes + len - 1);
		if (a.kept)
			require(!strcmp(a.kept, a.kept_at));
		(void)elf__failed(e, NULL);
		elf__free(e);
	}
	free(a.kept);
	close(a.fd);
	return 0;
}
