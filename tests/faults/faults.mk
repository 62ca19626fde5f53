# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Faults on purpose while a real job trains beside them: tests/faults/README.md. One alone: tests/faults/run WORD

FAULTS := $(B)/faults
FAULTS_SRC := tests/faults/targets

FAULT_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(WARN) -Wno-missing-prototypes -O2 -g -Iinclude -pthread

$(FAULTS)/%: $(FAULTS_SRC)/%.c include/memtrace/usdt.h
	@mkdir -p $(@D)
	$(CC) $(FAULT_CFLAGS) $< -o $@ -ldl
$(FAULTS)/%.so: $(FAULTS_SRC)/%.c include/memtrace/usdt.h
	@mkdir -p $(@D)
	$(CC) $(FAULT_CFLAGS) -shared -fPIC $< -o $@ -ldl

.PHONY: fault-targets check-faults check-faults-short
fault-targets: $(addprefix $(FAULTS)/,usdt_train storm steady plugin.so clock.so) $(TGT)/truth_fork

check-faults: $(B)/memtrace fault-targets ## every fault, injected while a job trains: its result stays bit-equal (root)
	@tools/make-venv
	@tests/faults/run

# What make check has time for.
check-faults-short: $(B)/memtrace fault-targets
	@tools/make-venv
	@tests/faults/run --quick --lanes 2
check-e2e: check-faults-short
