/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * USDT probes of an ELF file: notes of type 3 and owner "stapsdt" in the section .note.stapsdt, as sys/sdt.h writes them: three
 * addresses (probe, base, semaphore), then provider, name, arguments.
 *
 * The base is the address that the section .stapsdt.base had when the note was linked; if a tool like prelink moved the file
 * afterwards, it moved that section, too, and the difference corrects the other two.
 */
#include <errno.h>
#include <string.h>

#include "target/elf.h"
#include "target/elf_file.h"

#define NOTE_STAPSDT 3

static uint64_t align4(uint64_t v)
{
	return (v + 3) & ~3ull;
}

/* Next NUL-terminated string of desc from *at on, or NULL. */
static const char *next_string(const uint8_t *desc, size_t len, size_t *at)
{
	const char *s = (const char *)desc + *at;
	const char *nul = *at < len ? memchr(s, '\0', len - *at) : NULL;

	if (!nul)
		return NULL;
	*at += (size_t)(nul - s) + 1;
	return s;
}

/* 0 if the note is a valid probe. */
static int note_parse(const struct elf *e, const uint8_t *desc, size_t len, uint64_t base,
		      struct sdt_note *ret)
{
	uint64_t pc, base_then, sem;
	size_t at = 24;

	if (len < at)
		return -EINVAL;
	memcpy(&pc, desc, 8);
	memcpy(&base_then, desc + 8, 8);
	memcpy(&sem, desc + 16, 8);
	if (base && base_then) {
		pc += base - base_then;
		if (sem)
			sem += base - base_then;
	}
	ret->provider = next_string(desc, len, &at);
	ret->name = next_string(desc, len, &at);
	ret->args = next_string(desc, len, &at);
	if (!ret->provider || !ret->name)
		return -EINVAL;
	if (!ret->args)
		ret->args = "";
	ret->pc_offset = elf__offset_of(e, pc);
	ret->semaphore_offset = sem ? elf__offset_of(e, sem) : 0;
	if (ret->pc_offset == UINT64_MAX || ret->semaphore_offset == UINT64_MAX)
		return -EINVAL;
	return 0;
}

static int each_in(const struct elf *e, struct file_span s, uint64_t base,
		   int (*fn)(void *ctx, const struct sdt_note *note), void *ctx)
{
	const uint8_t *data = elf__at(e, s.off, s.len);
	uint64_t at = 0, cnt = 0;

	while (data && s.len - at >= sizeof(Elf64_Nhdr) && !elf__spend(e, 16)) {
		uint64_t name_at = at + sizeof(Elf64_Nhdr), desc_at, next;
		struct sdt_note note;
		Elf64_Nhdr h;
		int r;

		if (++cnt > ELF_NOTES_MAX)
			elf__refuse(e, -EOVERFLOW);
		memcpy(&h, data + at, sizeof(h));
		desc_at = name_at + align4(h.n_namesz);
		next = desc_at + align4(h.n_descsz);
		if (desc_at > s.len || h.n_descsz > s.len - desc_at)
			break;
		if (h.n_type == NOTE_STAPSDT && h.n_namesz == sizeof("stapsdt") &&
		    !memcmp(data + name_at, "stapsdt", sizeof("stapsdt")) &&
		    note_parse(e, data + desc_at, h.n_descsz, base, &note) == 0) {
			r = fn(ctx, &note);
			if (r)
				return r;
		}
		if (next > s.len)
			break;
		at = next;
	}
	return 0;
}

int elf__each_sdt_note(const struct elf *e, int (*fn)(void *ctx, const struct sdt_note *note), void *ctx)
{
	uint64_t base = 0;

	for (size_t i = 1; i < e->shdrs_cnt; i++)
		if (elf__section_is(e, i, ".stapsdt.base"))
			base = e->shdrs[i].sh_addr;
	for (size_t i = 1; i < e->shdrs_cnt; i++) {
		int r;

		if (e->shdrs[i].sh_type != SHT_NOTE || !elf__section_is(e, i, ".note.stapsdt"))
			continue;
		r = each_in(e, elf__section_span(e, i), base, fn, ctx);
		if (r)
			return r;
	}
	return 0;
}
