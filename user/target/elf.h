/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * elf: symbols, SDT notes and read-only data of one ELF file, never read whole.
 *
 * Little-endian ELF64 of this processor only (-ENOEXEC otherwise, with a message that names the kind). Looks names up through
 * the GNU hash table (SysV hash or a scan where there is none), so that one symbol of a 430 MB library costs microseconds;
 * .symtab is used only where .dynsym has nothing (static programs). Every offset, count and string from the file is
 * bounds-checked: files are hostile.
 *
 * What was read is kept in memory of our own and never read again, so a file may shrink or be replaced at any time: then it has
 * failed (elf__failed), like one that needs too much, and every question is answered with "there is none".
 */
#ifndef MT_TARGET_ELF_H
#define MT_TARGET_ELF_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct elf;

/* A file that needs more than this has failed. */
#define ELF_READ_MAX	(256ull << 20) /* bytes read; a plan reads 129 MB of torch 2.13's libtorch_cpu.so */
#define ELF_CPU_NS_MAX	2000000000ull  /* time spent on it; 0.05 s there */
#define ELF_SYMBOLS_MAX (4u << 20)     /* in one table; 534,541 there */
#define ELF_NOTES_MAX	(1u << 18)     /* SDT notes; libpython has 60 */

struct elf_sym {
	const char *name; /* valid as long as the elf */
	uint64_t vaddr;
	uint64_t offset; /* file offset of vaddr, through PT_LOAD; UINT64_MAX if not in the file */
	uint64_t size;
	uint8_t type; /* STT_* */
	uint8_t is_exec; /* vaddr lies in an executable PT_LOAD */
};

struct sdt_note {
	const char *provider, *name, *args; /* args in the syntax of sys/sdt.h (arch/sdt_args.h) */
	uint64_t pc_offset;	  /* file offset of the probe's nop */
	uint64_t semaphore_offset; /* file offset of its semaphore (16 bit counter), 0 = none */
};

/* Identifies a file in one state. */
struct elf_stamp {
	uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

/* 0, -ENOEXEC: no regular file, or -errno. */
int elf_stamp__of(int fd, struct elf_stamp *ret);

/* Takes ownership of fd in every case. `label` is for messages. */
int elf__open(struct elf **ret, int fd, const char *label, struct err *err);
/* Same over bytes in memory (borrowed): for tests and fuzzing. */
int elf__open_mem(struct elf **ret, const void *data, size_t len, const char *label, struct err *err);
void elf__free(struct elf *e);
/* 0, or why nothing more can be read; then earlier results must not be relied on. ret_why may be NULL. */
int elf__failed(const struct elf *e, const char **ret_why);
uint64_t elf__read_bytes(const struct elf *e);
void elf__stamp(const struct elf *e, struct elf_stamp *ret);

/* Defined symbol by its mangled name: 0 or -ENOENT. */
int elf__find_symbol(const struct elf *e, const char *name, struct elf_sym *ret);
/* The same only in .symtab, by a scan: functions of a program that its libraries do not use. */
int elf__find_local(const struct elf *e, const char *name, struct elf_sym *ret);
/* Name of the symbol whose address the dynamic linker writes into this slot; NULL: none. */
const char *elf__slot_symbol(const struct elf *e, uint64_t slot_vaddr);
/* Every defined function or object of .dynsym (.symtab if that is empty). fn != 0 stops and is returned. */
int elf__each_symbol(const struct elf *e, int (*fn)(void *ctx, const struct elf_sym *sym), void *ctx);
/*
 * Local functions of a library (in .symtab, where the other look-ups use .dynsym; none if stripped) that have one of the names
 * (255 of them, of 2 to 256 bytes): fn gets its number, and != 0 stops and is returned.
 */
int elf__find_locals(const struct elf *e, const char *const *names, size_t cnt,
		     int (*fn)(void *ctx, size_t name, const struct elf_sym *sym), void *ctx);
/* Every function of both tables, without its name, which elf__name_at() returns. */
struct elf_code {
	uint64_t vaddr, size, name_at;
};
int elf__each_code(const struct elf *e, int (*fn)(void *ctx, const struct elf_code *code), void *ctx);
const char *elf__name_at(const struct elf *e, uint64_t name_at); /* NULL: none */
int elf__each_sdt_note(const struct elf *e, int (*fn)(void *ctx, const struct sdt_note *note), void *ctx);
/* Up to `want` bytes of file content at a file offset, and how many there are. NULL: none. */
const uint8_t *elf__bytes(const struct elf *e, uint64_t offset, uint64_t want, size_t *ret_len);
/* A function's bytes, up to the size in its symbol, 64 KiB at most. */
const uint8_t *elf__code(const struct elf *e, const struct elf_sym *sym, size_t *ret_len);
/* Section by name (".rodata"): bytes, length; -ENOENT. */
int elf__section(const struct elf *e, const char *name, const uint8_t **ret, size_t *ret_len,
		 uint64_t *ret_vaddr);
/* UINT64_MAX if there is none. */
uint64_t elf__offset_of(const struct elf *e, uint64_t vaddr);
/*
 * What to add to a vaddr for its address in a process that has file offset map_off mapped at
 * map_start (a mapping of code). 0, or -ENOENT if the file has no such code.
 */
int elf__load_bias(const struct elf *e, uint64_t map_start, uint64_t map_off, uint64_t *ret);
/* The same for a file that is closed again. */
#define ELF_CODE_MAX 16
struct elf_layout {
	struct {
		uint64_t vaddr, offset, filesz;
	} code[ELF_CODE_MAX]; /* executable PT_LOADs; more are left out */
	size_t code_cnt;
};
void elf__layout(const struct elf *e, struct elf_layout *ret);
int elf_layout__bias(const struct elf_layout *l, uint64_t map_start, uint64_t map_off, uint64_t *ret);
int elf__is_static(const struct elf *e);  /* no PT_INTERP, and no PT_DYNAMIC or a static PIE */
int elf__is_stripped(const struct elf *e); /* no .symtab */

#endif
