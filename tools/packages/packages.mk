# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Packages of what `make install` installs (docs/install.md).

.PHONY: deb rpm image
deb: all ## build/memtrace_VERSION_ARCH.deb, for this distribution (docs/install.md)
	@tools/packages/make-deb $(B)
rpm: all bundle ## build/memtrace-VERSION.ARCH.rpm, with all its libraries (rpmbuild: tools/install-deps packages)
	@tools/packages/make-rpm $(B)
image: bundle ## build/memtrace-VERSION-ARCH.oci.tar, a container's image (umoci: tools/install-deps packages)
	@tools/packages/make-image $(B)
