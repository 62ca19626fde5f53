# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# The HTML page inside the binary. Its chart library is fetched once; where it cannot be, the build goes on without
# the page, says so, and does not try again by itself: `make page-library` does.

PAGE_FILES := $(wildcard user/view/page/page.* user/view/page/*.js)

build/uplot/tried: tools/fetch-uplot
	@mkdir -p $(@D)
	@tools/fetch-uplot $(@D) || true
	@touch $@
$(B)/page_html.h: build/uplot/tried tools/embed-page $(PAGE_FILES)
	@tools/embed-page build/uplot $@
$(B)/obj/view/page/html_page.o $(B)/san/view/page/html_page.o $(B)/fuzz/obj/view/page/html_page.o: $(B)/page_html.h

.PHONY: page-library check-page
page-library: ## fetch the HTML page's chart library (npm or curl)
	@tools/fetch-uplot build/uplot && touch build/uplot/tried

check-page: build/memtrace ## the HTML page in headless Chromium (tools/install-deps page)
	@tools/make-venv
	@tests/e2e/run page.
