/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/mhd.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "base/err.h"

#define SONAME "libmicrohttpd.so.12" /* 0.9.64 to 1.0 */

struct mhd mhd;

static const struct {
	const char *name;
	size_t at;
} calls[] = {
#define MHD_CALL(name) { "MHD_" #name, offsetof(struct mhd, name) },
	MHD_CALLS(MHD_CALL)
#undef MHD_CALL
};

int mhd_open(struct err *err)
{
	void *lib = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL), *call = lib;

	for (size_t i = 0; call && i < sizeof(calls) / sizeof(calls[0]); i++) {
		call = dlsym(lib, calls[i].name);
		*(void **)((char *)&mhd + calls[i].at) = call;
	}
	if (call)
		return 0;
	err_set(err, -ENOPKG, "serve needs libmicrohttpd: %s", dlerror());
	err_hint(err, "apt install libmicrohttpd12 (Ubuntu 24.04: libmicrohttpd12t64)");
	return -ENOPKG;
}
