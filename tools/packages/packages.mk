# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Packages of what `make install` installs (docs/install.md).

.PHONY: deb
deb: all ## build/memtrace_VERSION_ARCH.deb, for this distribution (docs/install.md)
	@tools/packages/make-deb $(B)
