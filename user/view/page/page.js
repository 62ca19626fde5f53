// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * The page. Its data is one JSON document (docs/page.md), in the element #data or given to memtrace.show(part), as
 * often as there is news: a part's keys replace those of the document; what the reader chose (zoom, lane, held moment, sorting,
 * filters) stays. Where #data holds {"feed": URL} instead, whole documents come from there as server-sent events (memtrace serve);
 * they lack what is known at the end only: the parts of the page for it stay hidden.
 *
 * Three layers: the model (numbers out of the document, no DOM), state (what the reader chose), views (draw the
 * model under the state). Every string of the document may be hostile: it becomes text nodes and canvas text only.
 *
 * tools/embed-page makes one script of diff.js, this file and the other page_*.js, in the order that it has.
 */
"use strict";

/* --- words and numbers ------------------------------------------------------------------------------------ */

// In the order in which they are stacked, from the bottom: memory that stays lies below memory that comes and goes.
const CATEGORIES = ["PARAMETER", "FROZEN", "BUFFER", "OPTIMIZER_STATE", "GRADIENT", "UNSHARDED", "INPUT", "DATALOADER", "ACTIVATION", "TEMPORARY",
	"AUTOGRAD_DETAIL", "COMMUNICATION", "WORKSPACE", "unknown"];
// The first eight are Okabe and Ito's: people with any colour vision can distinguish them (tests/e2e/test_page.py measures it). Neighbours differ in lightness.
const COLORS = {
	PARAMETER: "#0072b2", FROZEN: "#2222aa", BUFFER: "#aaee88", OPTIMIZER_STATE: "#56b4e9", GRADIENT: "#d55e00", INPUT: "#009e73",
	DATALOADER: "#552255", ACTIVATION: "#e69f00", TEMPORARY: "#f0e442", AUTOGRAD_DETAIL: "#cc79a7", COMMUNICATION: "#8822ee",
	WORKSPACE: "#882222", UNSHARDED: "#9988ff", unknown: "#c4c9ce",
};
const PHASES = ["forward", "backward", "optimizer", "recompute", "evaluation"];
const KINDS = ["all", "process", "region", "backward node", "operator", "Python", "native code", "not known"];

function three(v) {
	return v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
}

function bytes(v) {
	const sign = v < 0 ? "−" : "";
	let unit = 0;
	v = Math.abs(v);
	if (v < 1024)
		return `${sign}${v} B`;
	while (v >= 999.5 && unit < 6) {
		v /= 1024;
		unit++;
	}
	return `${sign}${three(v)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit]}`;
}

function count(v) {
	for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]])
		if (v >= size)
			return three(v / (unit === " k" ? 1e3 : size)) + unit;
	return String(v);
}

function span(ns) {
	for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
		if (Math.abs(ns) >= size)
			return ns >= 6e10 ? `${Math.floor(ns / 6e10)} min ${Math.round(ns % 6e10 / 1e9)} s` : `${three(ns / size)} ${unit}`;
	return `${Math.round(ns)} ns`;
}

// A point in time, with as many decimals as the visible range needs.
function clock(ns, visible) {
	const digits = Math.min(9, Math.max(0, Math.ceil(12 - Math.log10(Math.max(visible, 1)))));
	return `${(ns / 1e9).toFixed(digits)} s`;
}

function percent(part, whole) {
	return !(whole > 0) ? "–" : part > 0 && part / whole < 0.001 ? "<0.1 %" : `${three(100 * part / whole)} %`;
}
