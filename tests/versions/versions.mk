# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Versions of torch and of CPython: tests/versions/README.md. One alone: make check-versions VERSIONS="2.15.0"

.PHONY: check-versions
check-versions: $(B)/memtrace ## torch 1.13 to 2.15 on CPython 3.10 to 3.13, one after the other (root; fetches 3 GB a version)
	@tools/make-venv
	@tests/versions/check $(VERSIONS)

.PHONY: docs-versions
docs-versions: check-versions ## … and the table into docs/versions.md
	@tests/versions/check --table
