/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * generated: the Python files that torch.compile's inductor writes, and what their lines show of memory allocated there.
 *
 *	# Topologically Sorted Source Nodes: [linear_11, mm_3], Original ATen: [aten.t, aten.mm]
 *	buf7 = empty_strided_cpu((512, 512), (512, 1), torch.float32)
 *	extern_kernels.mm(buf1, permute_23, out=buf7)
 *
 * The form is that of torch/_inductor/codegen/wrapper.py (PythonWrapperCodegen), torch 2.4 to 2.15. Nothing is run and no
 * Python is understood beyond lines of that form: other lines are passed over.
 *
 * The text is hostile: it may hold anything, and is bounded by the numbers below. Results are printable ASCII; a name that is
 * not is left out. Time is linear in the text. Pure: no file is read here. Not thread-safe to parse, safe to read.
 */
#ifndef MT_PYTHON_GENERATED_H
#define MT_PYTHON_GENERATED_H

#include <stddef.h>
#include <stdint.h>

#define GENERATED_BYTES_MAX	(8u << 20) /* of a file */
#define GENERATED_LINES_MAX	200000u
#define GENERATED_ENTRIES_MAX	65536u /* allocations, aliases and calls of a file */
#define GENERATED_TEXT_MAX	1024u  /* of each text that is kept, NUL included: longer lists lose names at their end */

struct generated_file;

/* What is known of an allocation from its line. Texts live as long as the file. */
struct generated_line {
	const char *buffer; /* "buf7": what the allocation is assigned to; NULL: none */
	const char *later;  /* "buf8, buf12": buffers that take its memory over, in turn; NULL: none */
	/* What fills it: "cpp_fused_native_layer_norm_3", "extern_kernels.mm", "aten.convolution"; NULL: not known. */
	const char *kernel;
	/* "aten.native_layer_norm, aten.mm": Original ATen of that kernel; NULL: the file has no provenance of it. */
	const char *ops;
	const char *nodes; /* "layer_norm_3, linear_11": its source nodes; NULL: none */
	/* "float32[512,512]", as py_storage__type_text writes it; other sizes than numbers: "float32[s0,64]"; NULL. */
	const char *shape;
	const char *graph;	  /* as generated__graph */
	unsigned kernel_line; /* 1-based line of the call that fills it; 0: none */
	uint8_t is_reuse;     /* the buffer takes over another's memory: nothing is allocated there */
	uint8_t is_output;    /* `call` returns it: it is an output, or saved for backward */
};

/* 0; -EINVAL: no such file; -E2BIG: past a bound above; -ENOMEM. *ret is untouched on failure; `text` is not kept. */
int generated__parse(const char *text, size_t len, struct generated_file **ret);
/* By the 1-based line of an allocation, or any line of a statement that spans several. 0; -ENOENT: none is known there. */
int generated__line(const struct generated_file *f, unsigned line, struct generated_line *ret);
/* "forward", "backward" or "inference", if the file says so ("# AOT ID: ['0_forward']"); else NULL. */
const char *generated__graph(const struct generated_file *f);
/*
 * The operator as views show it, in buf: "inductor: cpp_fused_native_layer_norm_3 (aten.native_layer_norm)",
 * "inductor: extern_kernels.mm (aten.t, aten.mm)", "inductor: aten.convolution" where the list would repeat it, "inductor"
 * where no kernel is known. A text that does not fit loses operators at the end, and has "…" there. Returns its length; a
 * size of 0 gives 0. Views have room for GENERATED_OP_MAX (names themselves may have 4,096 bytes, base/names.h).
 */
#define GENERATED_OP_MAX 256
size_t generated__op_text(const struct generated_line *l, char *buf, size_t size);
/* Its memory, in bytes. */
size_t generated__bytes(const struct generated_file *f);
void generated__free(struct generated_file *f); /* NULL is fine */

#endif
