/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * torch_version: the PyTorch version of a process, from torch/version.py beside its libraries, or from the name of the library.
 * No I/O: the text is from a file of the process, so every byte is hostile.
 */
#ifndef MT_TARGET_TORCH_VERSION_H
#define MT_TARGET_TORCH_VERSION_H

#include <stddef.h>

#define TORCH_VERSION_BYTES 40
#define TORCH_VERSION_FILE_BYTES 4096 /* torch 2.13's has 300 */

/* May this file be requested as such a version.py? By its name alone: /…/torch/version.py */
int is_torch_version_file(const char *path);
/* The version.py for /…/torch/lib/libtorch_cpu.so, into buf: 0, or -ENOENT: the library has another name or place. */
int torch_version_file(const char *lib, char *buf, size_t size);
/* "2.13.0+cpu" of the line __version__ = '2.13.0+cpu'; -ENOENT: there is none. ret of TORCH_VERSION_BYTES, untouched then. */
int torch_version_parse(const char *text, size_t len, char *ret);
/* "1.13" of libtorch_cpu.so.1.13, as distributions call it; -ENOENT: it has no such suffix. */
int torch_version_of_name(const char *lib, char *ret);

#endif
