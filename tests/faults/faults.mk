# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Faults on purpose while a real job trains beside them: tests/faults/README.md. One alone: tests/faults/run WORD

FAULTS := $(B)/faults
FAULTS_SRC := tests/faults/targets

$(FAULTS)/%: $(FAULTS_SRC)/%.c include/memtrace/usdt.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) -O2 -g -Iinclude -pthread $< -o $@ -ldl

.PHONY: fault-targets check-faults check-faults-short
fault-targets: $(patsubst $(FAULTS_SRC)/%.c,$(FAULTS)/%,$(wildcard $(FAULTS_SRC)/*.c))

check-faults: $(B)/memtrace fault-targets ## every fault, injected while a job trains: its result stays bit-equal (root)
	@tools/make-venv
	@tests/faults/run

# What make check has time for.
check-faults-short: $(B)/memtrace fault-targets
	@tools/make-venv
	@tests/faults/run --quick
check-e2e: check-faults-short
