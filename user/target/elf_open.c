/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Headers and tables of a file, copied once; the kind of file if it is no ELF file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/err.h"
#include "base/free.h"
#include "target/elf.h"
#include "target/elf_file.h"

static const char *what_is_it(const uint8_t *d, size_t len)
{
	if (len == 0)
		return "it is empty";
	if (len >= 2 && d[0] == '#' && d[1] == '!')
		return "it is a script";
	if (len < EI_NIDENT || memcmp(d, ELFMAG, SELFMAG))
		return "it is not an ELF file";
	if (d[EI_CLASS] == ELFCLASS32)
		return "it is a 32-bit program; memtrace reads 64-bit ones";
	if (d[EI_DATA] != ELFDATA2LSB || d[EI_CLASS] != ELFCLASS64)
		return "it is an ELF file of a foreign byte order or class";
	if (len < sizeof(Elf64_Ehdr))
		return "it is cut inside its header";
	return NULL;
}

static int elf__copy_table(const struct elf *e, uint64_t off, size_t cnt, size_t entry, size_t want,
			   void **ret)
{
	const void *from;

	*ret = NULL;
	if (!cnt)
		return 0;
	from = entry == want ? elf__at(e, off, (uint64_t)cnt * want) : NULL;
	if (!from)
		return -ENOEXEC;
	*ret = malloc(cnt * want);
	if (!*ret)
		return -ENOMEM;
	memcpy(*ret, from, cnt * want);
	return 0;
}

/* More than 65,279 sections: the count is in section 0. */
static size_t elf__sections_cnt(const struct elf *e)
{
	Elf64_Shdr first;
	const void *at;

	if (e->ehdr.e_shnum || !e->ehdr.e_shoff)
		return e->ehdr.e_shnum;
	at = elf__at(e, e->ehdr.e_shoff, sizeof(first));
	if (!at)
		return 0;
	memcpy(&first, at, sizeof(first));
	return first.sh_size <= e->len / sizeof(first) ? first.sh_size : 0;
}

static int elf__parse(struct elf *e, const char *label, struct err *err)
{
	size_t head_len = e->len < sizeof(e->ehdr) ? e->len : sizeof(e->ehdr), sections;
	const void *head = elf__at(e, 0, head_len);
	const char *wrong = head || !head_len ? what_is_it(head, head_len) : NULL;
	int r;

	if (elf__failed(e, &wrong))
		return err_set(err, -EIO, "cannot read %s: %s", label, wrong);
	if (!wrong) {
		memcpy(&e->ehdr, head, sizeof(e->ehdr));
		if (e->ehdr.e_machine != arch.elf_machine)
			wrong = arch.elf_other;
		else if (e->ehdr.e_type != ET_EXEC && e->ehdr.e_type != ET_DYN)
			wrong = "it is neither a program nor a shared library";
	}
	if (wrong)
		return err_set(err, -ENOEXEC, "cannot read %s: %s", label, wrong);
	r = elf__copy_table(e, e->ehdr.e_phoff, e->ehdr.e_phnum, e->ehdr.e_phentsize, sizeof(Elf64_Phdr),
			    (void **)&e->phdrs);
	if (r < 0)
		return err_set(err, r, "cannot read %s: its program headers are damaged", label);
	e->phdrs_cnt = e->ehdr.e_phnum;
	/* Sections are optional: a file without its part after the segments still runs. */
	sections = elf__sections_cnt(e);
	r = elf__copy_table(e, e->ehdr.e_shoff, sections, e->ehdr.e_shentsize, sizeof(Elf64_Shdr),
			    (void **)&e->shdrs);
	if (r == -ENOMEM)
		return err_set(err, r, "out of memory");
	e->shdrs_cnt = r < 0 ? 0 : sections;
	elf__find_tables(e);
	return 0;
}

static int elf__open_copy(struct elf **ret, struct elf_copy *copy, size_t len, const char *label, struct err *err)
{
	struct elf *e = calloc(1, sizeof(*e));
	int r;

	if (!e || !copy) {
		elf_copy__free(copy);
		free(e);
		return err_set(err, -ENOMEM, "out of memory");
	}
	e->copy = copy;
	e->len = len;
	r = elf__parse(e, label, err);
	if (r < 0) {
		elf__free(e);
		return r;
	}
	*ret = e;
	return 0;
}

int elf__open_mem(struct elf **ret, const void *data, size_t len, const char *label, struct err *err)
{
	return elf__open_copy(ret, elf_copy__of_bytes(data, len), len, label, err);
}

int elf__open(struct elf **ret, int fd, const char *label, struct err *err)
{
	struct elf_copy *copy;
	size_t len;
	int r = elf_copy__of_file(&copy, fd, &len);

	if (r < 0)
		return err_set(err, r, "cannot read %s: %s", label,
			       r == -ENOEXEC ? "it is not a regular file" : strerror(-r));
	return elf__open_copy(ret, copy, len, label, err);
}

void elf__free(struct elf *e)
{
	if (!e)
		return;
	elf_copy__free(e->copy);
	free_all(e->phdrs, e->shdrs, e);
}
