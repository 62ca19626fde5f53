# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Soak: a job of a million steps through the model, and twelve hours of one of which 3 steps of 227 are traced (as at 2 %): flat memory,
# and labels that are right to the end.
# check-sim has a short one, under ASan and UBSan.

SOAK_STEPS ?= 1000000
SOAK_12_HOURS := 3323100 rss 227

$(B)/tests/soak_model: tests/soak/soak_model.c $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests $< $(B)/libmemtrace.a $(LIBS) -o $@
$(B)/tests/soak_model_san: tests/soak/soak_model.c $(B)/libmemtrace-san.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_CFLAGS) -Itests $< $(B)/libmemtrace-san.a $(LIBS) -o $@

SOAK_MINUTES ?= 30

.PHONY: check-soak check-soak-short check-soak-live
check-soak: $(B)/tests/soak_model ## a million steps, and twelve hours at 2 %, through the model: memory stays flat
	@$< $(SOAK_STEPS) rss
	@$< $(SOAK_12_HOURS)
check-soak-live: $(B)/memtrace venv-tests ## SOAK_MINUTES of a real job watched at 2 %: memory stays flat, nothing is lost or drifts
	tests/soak/live --minutes $(SOAK_MINUTES)
check-soak-short: $(B)/tests/soak_model_san
	@$< 20000
	@$< 200000 no 227
check-sim: check-soak-short
