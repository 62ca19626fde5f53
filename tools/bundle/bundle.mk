# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# One folder with all that memtrace needs, for machines where nothing is installed.

.PHONY: bundle
bundle: $(B)/memtrace.tar.gz ## build/memtrace.tar.gz: runs where nothing is installed
$(B)/memtrace.tar.gz: $(B)/memtrace tools/make-bundle tools/bundle/run.c
	HARDEN="$(HARDEN) $(HARDEN_LD) $(FORTIFY)" tools/make-bundle $< $@
