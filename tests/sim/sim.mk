# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Simulation: made-up processes through the real model, held against a slow oracle, under ASan and
# UBSan. One seed again: build/tests/sim_model SEED 0

SIM_SECONDS ?= 10
SIM_SEED ?=

$(B)/tests/sim_model: $(filter-out tests/sim/sim_flow.c tests/sim/sim_segments.c tests/sim/sim_learned.c,$(wildcard tests/sim/*.c)) $(wildcard tests/sim/*.h) $(B)/libmemtrace-san.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_CFLAGS) -Itests $(filter %.c,$^) $(B)/libmemtrace-san.a $(LIBS) -o $@

$(B)/tests/sim_segments: tests/sim/sim_segments.c tests/sim/oracle.c $(wildcard tests/sim/*.h) $(B)/libmemtrace-san.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_CFLAGS) -Itests $(filter %.c,$^) $(B)/libmemtrace-san.a $(LIBS) -o $@

$(B)/tests/sim_flow $(B)/tests/sim_learned: $(B)/tests/%: tests/sim/%.c tests/sim/oracle.c $(wildcard tests/sim/*.h) $(B)/libmemtrace-san.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_CFLAGS) -Itests $(filter %.c,$^) $(B)/libmemtrace-san.a $(LIBS) -o $@

.PHONY: check-sim sims
sims: $(B)/tests/sim_model $(B)/tests/sim_flow $(B)/tests/sim_segments $(B)/tests/sim_learned
check-sim: sims ## the model against the oracle for SIM_SECONDS
	@for x in sim_model sim_flow sim_segments sim_learned; do \
		echo "$(B)/tests/$$x $(or $(SIM_SEED),$$(date +%s)000) $(SIM_SECONDS)"; done | tests/abreast
