# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Libraries that people train with: tests/libraries/README.md. One alone: tests/libraries/run WORD

.PHONY: check-libraries
check-libraries: $(B)/memtrace ## real training libraries, attached in mid-run, against the job's own word (root; fetches 1.6 GB once)
	@tools/make-venv libraries
	@tests/libraries/run

.PHONY: docs-libraries
docs-libraries: check-libraries ## … and its table into docs/libraries.md
	@PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/e2e python3 tests/libraries/test_libraries.py
	@tools/tables put libraries
