# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Deliberate faults, each against the tests that should find it: tests/mutations/README.md

.PHONY: check-mutations
check-mutations: $(B)/memtrace ## deliberate faults in the product, one at a time: does a test find each? (root; ten minutes)
	@tests/mutations/run
