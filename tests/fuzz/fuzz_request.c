/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any text as an Accept, Host or Authorization header, as an address to listen on, and as names of a process in metrics. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "serve/accept.h"
#include "serve/gate.h"
#include "serve/listen.h"
#include "view/outbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_address(const char *text)
{
	struct listen_addr a, again;
	struct err err = { 0 };

	if (listen_parse(text, &a, &err) < 0) {
		require(err.msg[0] && err.hint[0]);
		return;
	}
	require(a.len && listen_parse(a.text, &again, NULL) == 0);
	require(!memcmp(&a.sa, &again.sa, sizeof(a.sa)) && a.is_loopback == again.is_loopback);
	require(!a.is_loopback || host_is_loopback(a.text));
}

static void check_door(const char *text)
{
	static const struct gate d = { .checks_host = 1, .has_token = 1, .token = "0123456789abcdef" };
	int is_let_in = gate__ask(&d, text, "Bearer 0123456789abcdef") == GATE_OPEN;

	require(is_let_in == (host_is_loopback(text) || gate__ask(&d, text, NULL) == GATE_NO_TOKEN));
	require(gate__ask(&d, NULL, text) != GATE_OTHER_HOST);
}

/* Whatever the name, so many lines, and one end. */
static void check_metrics(char *text, enum metrics_form form)
{
	char *label = NULL, *out_text = NULL;
	struct report_proc p = { .pid = 1, .comm = text, .labels = &label, .labels_cnt = 1 };
	struct report r = { .procs = &p, .procs_cnt = 1, .run.comm = text };
	struct metrics_opts opts = { .form = form };
	struct outbuf o;
	size_t len = 0, lines = 0;
	static size_t wanted[2];
	FILE *f = open_memstream(&out_text, &len);

	require(asprintf(&label, "RANK=%s", text) > 0 && f && !outbuf__init(&o, f));
	metrics__write(&o, &r, &opts);
	require(!outbuf__flush(&o));
	outbuf__done(&o);
	fclose(f);
	for (const char *q = out_text; (q = strchr(q, '\n')); q++)
		lines++;
	wanted[form] = wanted[form] ? wanted[form] : lines;
	require(lines == wanted[form] && strlen(out_text) == len);
	free(out_text);
	free(label);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	check_door(text);
	check_address(text);
	(void)accept_gzip(text);
	check_metrics(text, accept_form(text));
	free(text);
	return 0;
}
