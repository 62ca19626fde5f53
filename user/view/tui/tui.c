/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/tui.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "timeline/report.h"
#include "view/tui/screen.h"
#include "view/tui/term.h"

#define MESSAGE_NS 6000000000ull
#define KEYS_MAX 64 /* a paste must not keep the tracer from its work */

struct tui {
	struct tui_opts opts;
	struct tui_ui ui;
	struct tui_data data;
	struct report *held; /* shown while paused; NULL: the latest */
	char message[256];
	uint64_t message_ns; /* of the report after which it goes; 0: it was not shown yet */
	int is_open, is_recording;
};

int tui_fits(void)
{
	return tui_term_fits();
}

struct tui *tui__new(const struct tui_opts *opts)
{
	struct tui *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->opts = *opts;
	tui_ui__init(&t->ui, opts->is_live);
	return t;
}

void tui__free(struct tui *t)
{
	if (!t)
		return;
	if (t->is_open)
		tui_term_close();
	report__free(t->held);
	tui_data__done(&t->data);
	free(t);
}

int tui__open(struct tui *t)
{
	int err;

	if (t->is_open)
		return 0;
	err = tui_term_open(t->opts.color);
	if (err)
		return err;
	t->is_open = 1;
	t->ui.is_color = tui_term_has_color();
	t->ui.is_fine = tui_term_has_eighths();
	return 0;
}

static int tui__draw(struct tui *t)
{
	struct tui_words words = { t->message, t->is_recording, t->opts.file };
	struct canvas c;
	unsigned w, h;
	int err;

	if (!t->is_open)
		return 0;
	tui_term_size(&w, &h);
	err = canvas__init(&c, w, h);
	if (err)
		return err;
	err = tui_screen__draw(&c, &t->ui, &t->data, t->held ? t->held : t->data.now, &words);
	tui_term_show(&c);
	canvas__done(&c);
	return err;
}

int tui__show(struct tui *t, struct report *r)
{
	int err;

	if (t->ui.is_paused && !t->held) {
		t->held = t->data.now;
		t->data.now = NULL;
	}
	if (t->message[0] && !t->message_ns)
		t->message_ns = r->run.end_ts_ns + MESSAGE_NS;
	else if (r->run.end_ts_ns > t->message_ns)
		t->message[0] = '\0';
	err = tui_data__add(&t->data, r, !t->held);
	return err || t->held ? err : tui__draw(t); /* a key or another size draws a held picture again */
}

int tui__sample(struct tui *t, const struct report *r)
{
	return tui_data__sample(&t->data, r);
}

int tui__input(struct tui *t)
{
	unsigned did = 0;
	int was_held = t->ui.is_held;
	uint32_t key;
	int err;

	if (!t->is_open)
		return 0;
	for (int n = 0; n < KEYS_MAX && (key = tui_term_key()); n++) {
		if (key != TUI_KEY_RESIZE)
			t->message[0] = '\0';
		did |= tui_ui__key(&t->ui, key);
	}
	if (t->opts.is_live && t->ui.is_held && !was_held)
		tui__message(t, "Tables show now. Of a moment: record with w, then memtrace report F --tui");
	if (!t->ui.is_paused) {
		report__free(t->held);
		t->held = NULL;
	}
	if (!t->ui.is_held)
		t->data.is_reading = 0;
	if (did & TUI_QUIT)
		tui__message(t, t->opts.is_live ? "detaching; the report follows" : NULL);
	err = tui__draw(t);
	return err ? err : (int)did;
}

int tui__wants(const struct tui *t, uint64_t *ret_rel_ns)
{
	const struct tui_ui *ui = &t->ui;

	if (ui->is_live || !ui->is_held || !ui->has_moment || (t->data.has_then && t->data.then_ns == ui->moment_ns))
		return 0;
	*ret_rel_ns = ui->moment_ns;
	return 1;
}

int tui__reading(struct tui *t, unsigned percent)
{
	t->data.is_reading = 1;
	t->data.read_percent = percent;
	return tui__draw(t);
}

int tui__then(struct tui *t, uint64_t rel_ns, struct report *then)
{
	report__free(t->data.then);
	t->data.then = then;
	t->data.then_ns = rel_ns;
	t->data.has_then = 1;
	t->data.is_reading = 0;
	return tui__draw(t);
}

void tui__mark(struct tui *t)
{
	tui_data__mark(&t->data);
}

void tui__message(struct tui *t, const char *text)
{
	snprintf(t->message, sizeof(t->message), "%s", text ? text : "");
	t->message_ns = 0;
}

void tui__recording(struct tui *t, int is_recording)
{
	t->is_recording = is_recording;
}
