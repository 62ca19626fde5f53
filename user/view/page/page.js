// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * The page. Its data is one JSON document (docs/page.md), in the element #data or given to memtrace.show(part), as
 * often as there is news: a part's keys replace those of the document; what the reader chose (zoom, lane, held moment, sorting,
 * filters) stays. Where #data holds {"feed": URL} instead, whole documents come from there as server-sent events (memtrace serve);
 * they lack what is known at the end only: the parts of the page for it stay hidden.
 *
 * Three layers: the model (numbers out of the document, no DOM), state (what the reader chose), views (draw the
 * model under the state). Every string of the document may be hostile: it becomes text nodes and canvas text only.
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

/* --- the model -------------------------------------------------------------------------------------------- */

function undelta(list) {
	const out = new Float64Array(list.length);
	let v = 0;
	for (let i = 0; i < list.length; i++)
		out[i] = v += list[i];
	return out;
}

function makeLane(raw, processes) {
	const t = undelta(raw.t), cats = {}, total = new Float64Array(t.length);
	for (const name of CATEGORIES) {
		if (!raw.cats[name])
			continue;
		const values = cats[name] = undelta(raw.cats[name]);
		for (let i = 0; i < t.length; i++)
			total[i] += values[i];
	}
	// If the process has ended: when its last block was freed.
	const ended = raw.pid && /^(exited|signal)/.test(processes.findLast((p) => p.pid === raw.pid)?.state) ? t[total.findLastIndex((v) => v > 0) + 1] ?? null : null;
	return {ended, dev: raw.dev, pid: raw.pid, live: raw.live, peak: raw.peak, peakT: raw.peak_t, exact: raw.exact, t, cats, total};
}

const EPOCH_NS = 1024; // a double holds a time since the epoch with an error of up to this

function makeModel(doc) {
	const names = doc.names || [], duration = Math.max(doc.report.duration_ns, 1), first = Math.min(doc.first, duration - 1);
	const name = (n) => n ? names[n - 1] : "", start = doc.report.start_ns;
	return {
		doc, duration, first, report: doc.report, name,
		...makeGaps(doc.report.sampling?.gaps || doc.report.gaps || [], doc.report.sampling?.seen || [], start),
		lanes: doc.lanes.map((raw) => makeLane(raw, doc.report.processes)),
		blocks: !doc.blocks ? peakBlocks(doc, duration) : doc.blocks.rows.map(([allocated, life, ptr, size, cat, op, region, pid, dev, seenLate, kind, path, root, key, type, module, moduleRoot]) => ({
			allocated, freed: life === null ? duration : allocated + life, lives: life === null, ptr, at: Number(ptr), size,
			cat: doc.categories[cat] || "unknown", op: name(op), region: name(region), pid, dev, seenLate,
			name: kind ? tensorName({state: name(key), name: name(path)}) : "", what: kind && `${kind} of ${name(root)}, ${name(type)}`,
			module: maker(name(moduleRoot), name(module)),
		})),
		nodes: (doc.icicle?.rows || []).map(([parent, kind, value, peak, live, alloc, cnt, file, line], i) => ({
			i, parent, kind, name: kind === 0 ? "all" : kind === 1 ? processName(doc, value) : kind === 7 ? KINDS[7] :
				name(value) + (kind === 5 && file ? ` (${name(file).replace(/.*\//, "")}:${line})` : ""),
			place: file ? name(file) + (line ? `:${line}` : "") : "",
			at_peak: peak, live, alloc_bytes: alloc, alloc_count: cnt,
		})),
	};
}

/*
 * Stretches without tracing. Where allocations were seen all the same (--between blocks), that part is `learned`: bytes are true there,
 * categories are those of similar steps. A page of a trace that goes on has no moments there.
 */
function makeGaps(rows, seen, start) {
	const gaps = [], learned = [], until = new Map(feed.source ? [] : seen);
	for (const [begin, end, lost] of rows) {
		const whole = end - begin - lost < EPOCH_NS, from = until.get(begin) ?? begin;
		if (from > begin)
			learned.push({from: begin - start, to: from - start});
		if (end > from + EPOCH_NS || from === begin)
			gaps.push({from: from - start, to: end - start, whole});
	}
	return {gaps, learned};
}

// During a trace, lifetimes are known only of the blocks in the report.
function peakBlocks(doc, duration) {
	const start = doc.report.start_ns;
	return doc.report.peak_blocks.map((b) => ({
		allocated: Math.max(b.born_ns - start, 0), freed: b.freed_ns ? b.freed_ns - start : duration, lives: !b.freed_ns, ptr: b.ptr,
		at: Number(b.ptr), size: b.size, cat: b.cat, op: b.op || "", region: b.region || "", pid: b.pid, dev: b.dev, seenLate: false,
		name: b.name || "", what: "", module: maker(b.module_root, b.module),
	}));
}

// "Net.layers.0": the module whose forward or backward allocated it; "": none, or not known.
function maker(root, path) {
	return root ? root + (path ? `.${path}` : "") : "";
}

// "layers.0.weight", "exp_avg layers.0.weight": docs/names.md
function tensorName(t) {
	return t.state ? `${t.state} ${t.name}` : t.name;
}

function processName(doc, pid) {
	const p = doc.report.processes.findLast((x) => x.pid === pid);
	return p && p.rank ? `rank ${p.rank.rank}, ${pid}` : p && p.comm ? `${pid} ${p.comm}` : pid ? String(pid) : "other processes";
}

// What the list of blocks says of one without a name: its operator, else why there is none.
const madeBy = (b) => isLearned(b.allocated) ? `${bare(b.op) || "operator not seen"}, as in similar steps` : bare(b.op) || (b.seenLate ? "from before the attach" : "no operator open");

// The last moment at or before t, or -1.
function momentAt(lane, t) {
	let lo = -1, hi = lane.t.length - 1;
	while (lo < hi) {
		const mid = (lo + hi + 1) >> 1;
		if (lane.t[mid] <= t)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

// The gap (docs/sampling.md) that a time lies in.
const gapAt = (t) => model.gaps.find((g) => g.whole && g.from < t && t < g.to);
const isLearned = (t) => model.learned.some((g) => g.from < t && t < g.to);

// During a trace, only samples of each process are known, and the highest moment may lie between them.
const isOfSamples = (lane) => Boolean(feed.source && lane?.pid);

// The height and time of each process's highest moment are known all the same, though not its categories.
function unseenPeak(lane) {
	const p = model.report.processes.findLast((x) => x.pid === lane.pid);
	return p?.peak && lane.dev !== "host" ? ` Its highest moment, ${bytes(p.peak)} on all devices together, was at ${clock(p.peak_ns - model.report.start_ns, model.duration)}.` : "";
}

/*
 * For each gap, the highest moment of the traced steps just before it; -1: there were none. Steps are much alike
 * (docs/sampling.md), so this is a fair picture of the gap, as long as the page says that it was not traced.
 */
function highestBefore(lane) {
	if (lane.before)
		return lane.before;
	let from = -Infinity, was = -1;
	lane.before = new Map();
	for (const g of model.gaps) {
		let high = -1;
		for (let i = momentAt(lane, g.from); i >= 0 && lane.t[i] > from - EPOCH_NS; i--)
			if ((high < 0 || lane.total[i] > lane.total[high]) && !isLearned(lane.t[i]))
				high = i;
		was = high < 0 ? was : high;
		from = g.to;
		if (g.whole)
			lane.before.set(g, was);
	}
	return lane.before;
}

function composition(lane, i) {
	const parts = {};
	for (const name in lane.cats)
		parts[name] = i < 0 ? 0 : lane.cats[name][i];
	return {t: i < 0 ? 0 : lane.t[i], total: i < 0 ? 0 : lane.total[i], parts};
}

/*
 * What a chart `width` pixels wide can show of [from, to]: all moments, or per pixel the first, the lowest, the
 * highest and the last. Rows: times in seconds, then for each category the sum of it and of those under it.
 */
function chartData(lane, shown, from, to, width) {
	const first = Math.max(momentAt(lane, from), 0);
	let last = Math.max(momentAt(lane, to), 0), picked = [];
	if (last < lane.t.length - 1)
		last++;
	if (last - first <= 4 * width) {
		for (let i = first; i <= last; i++)
			picked.push(i);
	} else {
		let i = first;
		while (i <= last) {
			const end = from + (Math.floor((lane.t[i] - from) / (to - from) * width) + 1) * (to - from) / width;
			let low = i, high = i, k = i;
			for (; k <= last && lane.t[k] < end || k === i; k++) {
				if (lane.total[k] < lane.total[low])
					low = k;
				if (lane.total[k] > lane.total[high])
					high = k;
			}
			picked.push(...new Set([i, Math.min(low, high), Math.max(low, high), k - 1]));
			i = k;
		}
	}
	const {times, from: moments} = cutAtGaps(lane, picked, to), rows = [times];
	let under = new Array(times.length).fill(0);
	for (const name of shown) {
		const values = lane.cats[name];
		rows.push(under = moments.map((i, k) => i === null ? null : under[k] + values[i]));
	}
	return rows;
}

// Times in seconds, and the index of the moment that is drawn from each time on; null in gaps: nothing is drawn.
function cutAtGaps(lane, picked, to) {
	const gaps = model.gaps, times = [], from = [], put = (t, i) => {
		times.push(t / 1e9);
		from.push(i);
	};
	// uPlot ends a line at its last point before a hole, not where the hole begins: the last value is repeated there.
	const cut = (t) => {
		put(t, from.at(-1));
		put(t + 1, null);
	};
	let g = 0;
	picked.forEach((i, k) => {
		const t = lane.t[i], next = k + 1 < picked.length ? lane.t[picked[k + 1]] : Math.max(to, t);
		for (; g < gaps.length && gaps[g].to <= t + EPOCH_NS; g++) {
			if (!k || !gaps[g].whole)
				continue;
			if (from.at(-1) !== null)
				cut(gaps[g].from);
			// During a trace there is one moment for a second or more. It stands for all windows in that time.
			if (feed.source && gaps[g].to < t)
				put(gaps[g].to, i);
		}
		put(t, i);
		while (g < gaps.length && !gaps[g].whole)
			g++;
		if (g < gaps.length && gaps[g].from < next)
			cut(Math.max(gaps[g].from, t + 1));
	});
	// The last value holds until the end of the trace.
	if (picked.length && from.at(-1) !== null)
		put(Math.max(to, lane.t[picked.at(-1)]), from.at(-1));
	return {times, from};
}

/* --- state ------------------------------------------------------------------------------------------------ */

const state = {lane: "", range: null, hidden: new Set(), held: null, hover: null, measure: "at_peak", root: 0, moduleMeasure: "at_peak", module: -1, optrace: "step", op: null, table: "ops", tables: {}};
let doc = null, model = null, chart = null;

const $ = (id) => document.getElementById(id);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function h(tag, props, ...children) {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(props || {})) {
		if (k.startsWith("on"))
			e.addEventListener(k.slice(2), v);
		else if (k === "style")
			Object.assign(e.style, v);
		else if (v !== null && v !== undefined && v !== false)
			e.setAttribute(k, v === true ? "" : v);
	}
	e.append(...children.filter((c) => c !== null && c !== undefined));
	return e;
}

const laneKey = (l) => `${l.dev} ${l.pid}`;
const lane = () => model.lanes.find((l) => laneKey(l) === state.lane) || model.lanes[0];
const firstLane = () => model.lanes.length ? model.lanes.reduce((a, b) => b.pid ? a : a.dev !== "host" && (b.dev === "host" || a.peak >= b.peak) ? a : b) : undefined;
const range = () => state.range || [model.first, model.duration];
const shownCats = () => CATEGORIES.filter((c) => lane().cats[c] && !state.hidden.has(c));

function swatch(name) {
	return h("span", {class: "swatch", style: {background: COLORS[name], borderColor: COLORS[name]}});
}

function tip(event, lines) {
	const box = $("tip");
	box.hidden = !lines;
	if (!lines)
		return;
	box.replaceChildren(...lines.filter(Boolean).map((l) => h("div", null, l)));
	const w = box.offsetWidth, ht = box.offsetHeight;
	box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 8))}px`;
	box.style.top = `${event.clientY + 16 + ht > innerHeight ? Math.max(4, event.clientY - ht - 10) : event.clientY + 16}px`;
}

/* --- the head --------------------------------------------------------------------------------------------- */

/* A job's name for its owner: the script, else the module, else the program. */
function jobName(target) {
	const words = (target.cmdline || "").split(" "), module = words.indexOf("-m");
	const script = words.find((w, i) => i && w.endsWith(".py"));
	return script ? script.split("/").pop() : module > 0 && words[module + 1] || target.comm;
}

function drawHead() {
	const r = model.report, facts = [];
	const fact = (label, value, more, bad) => facts.push(h("div", null, h("dt", null, label),
		h("dd", bad ? {class: "bad"} : null, value, more ? h("small", null, ` ${more}`) : null)));
	const lost = Object.entries(r.lost).reduce((sum, [reason, n]) => sum + (reason === "stack_rate" ? 0 : n), 0); // that one is a rate, no loss
	const others = Math.max(r.target.jobs - 1, 0) || 0; // jobs: where there are several
	$("title").textContent = !r.target.comm ? (r.processes.length ? "All jobs of the machine" : "memtrace") : others ? `${jobName(r.target)} (pid ${r.target.pid}) and ${others} other${others > 1 ? "s" : ""}` :
		`${jobName(r.target)} ${r.target.pid}`;
	document.title = `memtrace: ${$("title").textContent}`;
	$("subtitle").textContent = [others ? "" : r.target.cmdline, r.start_ns ? new Date(r.start_ns / 1e6).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "",
		span(r.traced_ns) === span(r.duration_ns) ? `${span(r.duration_ns)} traced` : `${span(r.traced_ns)} of ${span(r.duration_ns)} traced`,
		r.sampling ? `of ${count(r.sampling.steps_seen)} steps ${count(r.sampling.steps_traced)} traced` : r.steps ? `${count(r.steps)} steps` : ""].filter(Boolean).join(" · ");
	for (const [dev, d] of [...Object.entries(r.devices), ...(r.host ? [["host", r.host]] : [])]) {
		const t = model.lanes.find((l) => l.dev === dev && !l.pid && l.peak === d.peak)?.peakT ?? d.peak_ns - r.start_ns; // a lane has it to the ns
		const step = stepWords(...stepOf(doc.bands, t), t, true);
		fact(`${dev} peak`, bytes(d.peak), d.peak ? [`at ${clock(t, model.duration)}`, step].filter(Boolean).join(", ") : "");
		fact(`${dev} live ${feed.source && !r.coverage.complete ? "now" : "at the end"}`, bytes(d.live));
		fact(`${dev} allocated`, bytes(d.alloc_bytes), `in ${count(d.allocs)} blocks`);
		if (d.ooms)
			fact(`${dev} out of memory`, count(d.ooms), `last asked for ${bytes(d.oom_bytes_last)}`, true);
	}
	if (r.kernel)
		fact("RSS peak", bytes(r.kernel.rss_peak));
	if (r.sampling?.learned)
		fact("labels learned", percent(r.sampling.learned.share, 1), "of what was allocated between windows");
	fact("lost", lost ? count(lost) : "nothing", lost ? "see below" : "", lost > 0);
	const cost = costOf(r);
	fact("cost to the job", cost ? percent(cost[0], 1) : "unknown", cost ? cost[1] : "");
	$("facts").replaceChildren(...facts);
}

/* The cost as the verdict has it: by the job's own steps, where that was measured. */
function costOf(r) {
	const seen = r.overhead.measured;
	if (r.sampling)
		return [r.sampling.price_ratio, "of its time"];
	if (seen && seen.lost > seen.error && seen.error <= seen.lost / 2)
		return [seen.lost, `of its speed, ± ${percent(seen.error, 1)}`];
	return r.overhead.target_cpu_ns ? [r.overhead.fraction, "of its CPU time"] : null;
}

// The recording's name for a command. A live trace has none yet.
function withName(command, name = model.doc.recording) {
	return command.replace(/(?<=\s)FILE(?=\s|$)/g, () => name || "FILE");
}

// The proposal of a line of the verdict, with its command at the end.
function nextOf(line, name) {
	const command = line.command || "", words = line.next.slice(0, line.next.length - command.length);
	return line.next ? h("small", null, `next: ${words}`, command ? h("code", null, withName(command, name)) : null) : null;
}

const VERDICT_SHOWN = 6; // as many as in a report; a button shows the others

function drawVerdict() {
	const all = model.report.verdict, list = state.wholeVerdict ? all : all.slice(0, VERDICT_SHOWN);
	$("verdict").replaceChildren(...list.map((l) => h("li", {class: l.severity}, l.text, nextOf(l, model.doc.recording))),
		...list.length < all.length ? [h("li", null, h("button", {onclick: () => {
			state.wholeVerdict = true;
			drawVerdict();
		}}, `${all.length - list.length} more`))] : []);
}

/* --- lanes and legend ------------------------------------------------------------------------------------- */

function drawLanes() {
	if (document.activeElement?.tagName === "SELECT" && $("lanes").contains(document.activeElement))
		return; // the list may be open
	const devs = [...new Set(model.lanes.map((l) => l.dev))], now = lane(), box = $("lanes");
	const children = devs.length > 1 ? devs.map((dev) => h("button", {"aria-pressed": String(dev === now.dev), onclick: () => {
		state.lane = laneKey(model.lanes.find((l) => l.dev === dev && l.pid === now.pid) || model.lanes.find((l) => l.dev === dev));
		laneChanged();
	}}, dev)) : [h("span", null, devs[0] || (model.report.coverage.complete ? "nothing was allocated" : "nothing was seen to be allocated yet"))];
	const procs = model.lanes.filter((l) => l.dev === now?.dev);
	if (procs.length > 1) {
		const select = h("select", {"aria-label": "process", onchange: () => {
			state.lane = select.value;
			laneChanged();
		}}, ...procs.map((l) => h("option", {value: laneKey(l), selected: l === now}, l.pid ? processName(doc, l.pid) : "all processes")));
		children.push(select);
	}
	box.replaceChildren(...children);
}

function laneChanged() {
	state.hover = null;
	map.layout();
	makeChart();
	drawTimeline();
	drawLanes();
	place.tell(true);
}

function drawLegend() {
	$("legend").replaceChildren(...CATEGORIES.filter((c) => lane()?.cats[c]).reverse().map((c) =>
		h("button", {"aria-pressed": String(!state.hidden.has(c)), title: "click: hide or show; double click: this one alone",
			onclick: () => {
				state.hidden.has(c) ? state.hidden.delete(c) : state.hidden.add(c);
				makeChart();
				drawTimeline();
			},
			ondblclick: () => {
				const others = CATEGORIES.filter((x) => x !== c);
				state.hidden = others.every((x) => state.hidden.has(x)) ? new Set() : new Set(others);
				makeChart();
				drawTimeline();
			}}, swatch(c), c)));
}

/* --- the chart -------------------------------------------------------------------------------------------- */

const LEFT = 68, RIGHT = 10;

function plotWidth() {
	return Math.max($("plots").clientWidth, 200);
}
const toX = (t) => LEFT + (t - range()[0]) / (range()[1] - range()[0]) * (plotWidth() - LEFT - RIGHT);
const toT = (x) => range()[0] + (x - LEFT) / (plotWidth() - LEFT - RIGHT) * (range()[1] - range()[0]);

const MINUTES = 1.2e11; // ns that are shown, from which on labels are in minutes

// In seconds, as all times on the page, with enough decimals for neighbouring ticks to differ.
function ticks(ns, visible) {
	const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(visible / 8))));
	return visible >= MINUTES ? `${+(ns / 6e10).toFixed(2)} min` : `${(ns / 1e9).toFixed(digits)} s`;
}

// Half of a label is to the right of its tick.
function fitsOnAxis(u, x) {
	return u.valToPos(x, "x") < u.bbox.width / devicePixelRatio - 22;
}

// Distances between ticks that give short labels: 1, 2 or 5 of a unit, which is minutes if two or more are shown.
function tickSteps(from, to) {
	const steps = [];
	for (let unit = to - from >= MINUTES / 1e9 ? 6 : 1e-9; unit < 1e9; unit *= 10)
		steps.push(unit, 2 * unit, 5 * unit);
	return steps;
}

// Distances between ticks of bytes that give round labels: 512 KiB, 1.00 MiB, 1.50 MiB.
function byteSteps() {
	const steps = [];
	for (let unit = 1; unit < 2 ** 62; unit *= 1024)
		steps.push(...[1, 2, 5, 10, 20, 50, 100, 256, 512].map((n) => n * unit));
	return steps;
}

function makeChart() {
	if (chart)
		chart.destroy();
	chart = null;
	$("chart").replaceChildren();
	if (!lane() || !lane().t.length)
		return;
	const shown = shownCats(), grid = {stroke: css("--line"), width: 1};
	const text = {stroke: css("--dim"), font: '12px system-ui, "Liberation Sans", Arial, sans-serif', ticks: {show: false}, grid};
	const step = uPlot.paths.stepped({align: 1});
	chart = new uPlot({
		width: plotWidth(), height: innerWidth < 600 ? 220 : 300, padding: [8, RIGHT, 0, 0], legend: {show: false},
		scales: {x: {time: false, range: () => range().map((t) => t / 1e9)}, y: {range: (u, min, max) => [0, 1.04 * Math.max(max, highestInGaps()) || 1]}},
		axes: [{...text, size: 26, space: 90, incrs: (u, axis, from, to) => tickSteps(from, to), values: (u, v) => v.map((x) => fitsOnAxis(u, x) ? ticks(x * 1e9, range()[1] - range()[0]) : "")},
			{...text, size: LEFT, incrs: byteSteps(), space: 36, values: (u, v) => v.map(bytes)}],
		cursor: {points: {show: false}, drag: {x: true, y: false, setScale: false}, bind: {dblclick: () => () => null}},
		// The highest sum is drawn first, each smaller one over it.
		series: [{}, ...[...shown].reverse().map((c) => ({label: c, fill: COLORS[c], stroke: COLORS[c], width: 1, paths: step, points: {show: false}}))],
		hooks: {
			setSelect: [(u) => {
				const {left, width} = u.select;
				if (width > 4)
					setRange(toT(LEFT + left), toT(LEFT + left + width));
				u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
			}],
			draw: [widenSpikes, markGaps, markHighest],
		},
	}, chartRows(shown), $("chart"));
}

// Nothing drawn would look like no memory: so a gap is hatched, over a pale picture of the steps that were traced before it.
function hatched(ctx, k, size) {
	const tile = document.createElement("canvas");
	tile.width = tile.height = size * k;
	const c = tile.getContext("2d");
	c.strokeStyle = css("--hatch");
	c.lineWidth = k;
	c.beginPath();
	for (const at of [-size, 0, size]) {
		c.moveTo((at - 1) * k, (size + 1) * k);
		c.lineTo((at + size + 1) * k, -k);
	}
	c.stroke();
	return ctx.createPattern(tile, "repeat");
}

// The gaps in the visible range as [x, width, gap]; `x` converts a time.
function gapsShown(x, of = model.gaps) {
	const [from, to] = range();
	return of.filter((g) => g.to > from && g.from < to).map((g) => {
		const left = x(Math.max(g.from, from));
		return [left, Math.max(x(Math.min(g.to, to)) - left, 0.5), g];
	});
}

// The highest value that is drawn in visible gaps: the scale has to include it.
function highestInGaps() {
	const l = lane(), shown = shownCats(), before = highestBefore(l);
	return gapsShown(toX).map(([, , g]) => before.get(g) ?? -1).filter((i) => i >= 0)
		.reduce((most, i) => Math.max(most, shown.reduce((sum, name) => sum + l.cats[name][i], 0)), 0);
}

function markGaps(u) {
	const c = u.ctx;
	c.save();
	c.beginPath();
	c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
	c.clip();
	const hatch = hatched(c, devicePixelRatio, 7), y = (v) => u.valToPos(v, "y", true), l = lane(), shown = shownCats();
	for (const [x, w, g] of gapsShown((t) => u.valToPos(t / 1e9, "x", true))) {
		const high = highestBefore(l).get(g) ?? -1;
		let under = 0;
		c.globalAlpha = 0.3;
		for (const name of high < 0 ? [] : shown) {
			const over = under + l.cats[name][high];
			c.fillStyle = COLORS[name];
			c.fillRect(x, y(over), w, y(under) - y(over));
			under = over;
		}
		c.globalAlpha = 1;
		c.fillStyle = hatch;
		c.fillRect(x, u.bbox.top, w, u.bbox.height);
	}
	for (const [x, w] of gapsShown((t) => u.valToPos(t / 1e9, "x", true), model.learned)) {
		c.globalAlpha = 0.4;
		c.fillStyle = css("--ground");
		c.fillRect(x, u.bbox.top, w, u.bbox.height);
		c.globalAlpha = 1;
		c.fillStyle = hatch;
		c.fillRect(x, u.bbox.top, w, u.bbox.height);
	}
	c.restore();
}

const LEAST_WIDTH = 3; // in pixels, of a spike: one pixel is hard to see

/*
 * The drawn moments that are the highest within LEAST_WIDTH pixels and lower on both sides: a spike in a long recording is narrower
 * than a pixel.
 */
function narrowSpikes(times, high, x, out) {
	const at = times.map(x), last = times.length - 1, spikes = [];
	for (let i = 0; i <= last; i++) {
		let left = high[i], right = high[i], most = high[i];
		for (let k = i - 1; k >= 0 && at[i] - at[k + 1] < LEAST_WIDTH; k--) {
			left = Math.min(left, high[k]);
			most = Math.max(most, high[k] + 1); // if several are as high, the first counts
		}
		for (let k = i + 1; k <= last && at[k] - at[i] < LEAST_WIDTH; k++) {
			right = Math.min(right, high[k]);
			most = Math.max(most, high[k]);
		}
		if (most === high[i] && high[i] - Math.max(left, right) > out)
			spikes.push([(at[i] + at[Math.min(i + 1, last)]) / 2, i]);
	}
	return spikes;
}

function widenSpikes(u) {
	const [times, ...sums] = u.data, k = devicePixelRatio, c = u.ctx;
	if (!sums.length)
		return;
	c.save();
	c.beginPath();
	c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
	c.clip();
	for (const [x, i] of narrowSpikes(times, sums[0], (t) => u.valToPos(t, "x"), u.scales.y.max / 10))
		sums.forEach((sum, n) => {
			c.fillStyle = COLORS[u.series[n + 1].label];
			const y = u.valToPos(sum[i], "y", true);
			c.fillRect(Math.round(u.bbox.left + (x - LEAST_WIDTH / 2) * k), y, Math.round(LEAST_WIDTH * k), u.bbox.top + u.bbox.height - y); // whole pixels: no seam
		});
	c.restore();
}

// The highest moment in sight, with its height; the peak, if that is in sight.
function markHighest(u) {
	const [times, high] = u.data, [from, to] = range(), k = devicePixelRatio, c = u.ctx, e = $("highest"), l = lane();
	const wasLearned = (i) => isLearned(times[i] * 1e9);
	let best = -1;
	for (let i = 0; high && i < times.length; i++)
		if (times[i] * 1e9 >= from && times[i] * 1e9 <= to && high[i] && (best < 0 || high[i] > high[best] || (high[i] === high[best] && wasLearned(best) && !wasLearned(i))))
			best = i;
	e.hidden = best < 0;
	if (e.hidden)
		return;
	// If several moments are as high, the report has chosen one.
	const learned = wasLearned(best), is_peak = high[best] === l.peak && !learned && !isOfSamples(l), at = is_peak && l.peakT >= from && l.peakT <= to ? l.peakT / 1e9 : times[best];
	const x = u.valToPos(at, "x", true), y = u.valToPos(high[best], "y", true);
	c.save();
	c.fillStyle = css("--text");
	c.beginPath();
	c.moveTo(x, y - 1 * k);
	c.lineTo(x - 4 * k, y - 8 * k);
	c.lineTo(x + 4 * k, y - 8 * k);
	c.fill();
	c.restore();
	e.textContent = `${is_peak ? "peak " : ""}${bytes(high[best])}${learned ? ", not traced" : ""}`;
	besideOf(e, x / k);
	e.style.top = `${Math.max(0, y / k - 16)}px`;
}

// To the right of x, where there is room, else to the left.
function besideOf(e, x) {
	const fits = x + 8 + e.offsetWidth < plotWidth() - RIGHT;
	e.style.left = `${fits ? x + 8 : x - 8 - e.offsetWidth}px`;
}

function chartRows(shown) {
	const rows = chartData(lane(), shown, ...range(), plotWidth() - LEFT - RIGHT);
	return [rows[0], ...rows.slice(1).reverse()];
}

function setRange(from, to) {
	const least = Math.min(1000, model.duration - model.first);
	let width = Math.max(to - from, least);
	if (width >= model.duration - model.first) {
		state.range = null;
	} else {
		from = Math.min(Math.max((from + to - width) / 2, model.first), model.duration - width);
		state.range = [from, from + width];
	}
	drawTimeline();
	place.tell(false);
}

function zoom(factor, at) {
	const [from, to] = range(), mid = at === undefined ? (from + to) / 2 : at;
	setRange(mid - (mid - from) * factor, mid + (to - mid) * factor);
}

function toPeak() {
	const l = lane();
	if (!l)
		return;
	const width = l.exact ? Math.min(l.exact[1] - l.exact[0], model.duration - model.first) / 4 : (model.duration - model.first) / 20;
	setRange(l.peakT - width / 2, l.peakT + width / 2);
	hold(l.peakT);
}

// The time of the step that holds the held moment, or else the peak, and a little on both sides; null: no step is known.
function stepRange() {
	const l = lane(), t = state.held ?? l?.peakT, procs = laneProcs().filter((b) => b.steps.rows.length);
	const step = stepOf(procs, t)[1] || procs[0]?.steps.rows.at(-1);
	return step ? [step[0] - 0.02 * step[1], step[0] + 1.02 * step[1]] : null;
}

function toStep() {
	const r = stepRange();
	if (r)
		setRange(...r);
}

// The moment of export --at: the page opens with it, unless the address has one, and Back returns to it.
function beginAtHeld() {
	const l = model.lanes.find((x) => x.dev === doc.held.dev && !x.pid), count = model.report.steps;
	state.held = doc.held.t;
	if (l)
		state.lane = laneKey(l);
	const r = count >= MANY_STEPS && stepRange();
	state.range = r && r[0] <= state.held && state.held <= r[1] ? [Math.max(r[0], model.first), Math.min(r[1], model.duration)] : null;
}

/*
 * Many steps side by side look like a comb. Then the page begins with a single step, that of the peak; unless the verdict is about the
 * whole time, or part of it was not traced.
 */
const MANY_STEPS = 8;
const OF_ALL_TIME = ["leak", "spike", "recompiles", "out_of_memory", "died"];
function beginAtStep() {
	const r = stepRange(), step = r && lane() && r[0] <= lane().peakT && lane().peakT <= r[1];
	if (step && !feed.source && !model.gaps.length && !model.learned.length && model.report.steps >= MANY_STEPS && !model.report.verdict.some((l) => OF_ALL_TIME.includes(l.kind)))
		state.range = [Math.max(r[0], model.first), Math.min(r[1], model.duration)];
}

// null: no moment is held any more.
function hold(t) {
	state.held = t;
	drawMoment();
	place.tell(true);
}

/*
 * The address holds what the reader looks at: #at=1.234567&zoom=1.2-1.3&lane=cpu, in seconds after the start. So a link shows what its
 * sender saw. Holding a moment adds an entry to the browser's history; zooming and moving replace the last one.
 */
const place = {
	waits: 0,
	text() {
		const s = (ns) => String(+(ns / 1e9).toFixed(9)), parts = [], l = lane();
		if (state.held !== null)
			parts.push(`at=${s(state.held)}`);
		if (state.range)
			parts.push(`zoom=${s(state.range[0])}-${s(state.range[1])}`);
		if (l && l !== firstLane())
			parts.push(`lane=${encodeURIComponent(l.pid ? `${l.dev} ${l.pid}` : l.dev)}`);
		return parts.join("&");
	},
	tell(is_new) {
		clearTimeout(this.waits);
		if (!is_new) {
			this.waits = setTimeout(() => this.write(false), 300);
			return;
		}
		this.write(true);
	},
	write(is_new) {
		const text = this.text();
		if (!model || location.hash.slice(1) === text)
			return;
		if (is_new)
			location.hash = text;
		else
			location.replace(`#${text}`);
	},
	// The address may come from another recording, or hold anything.
	read() {
		const was = state.lane;
		if (location.hash.length < 2 && doc.held) {
			beginAtHeld();
			return state.lane !== was;
		}
		const said = new Map(location.hash.slice(1).split("&").map((part) => [part.split("=")[0], part.slice(part.indexOf("=") + 1)]));
		const ns = (text) => /^\d+(\.\d+)?$/.test(text) ? Math.min(Math.max(1e9 * Number(text), model.first), model.duration) : null;
		const [from, to] = (said.get("zoom") || "").split("-").map(ns), [dev, pid] = decoded(said.get("lane")).split(" ");
		const l = model.lanes.find((x) => x.dev === dev && x.pid === Number(pid || 0)) || firstLane();
		const changed = l && laneKey(l) !== was;
		state.held = ns(said.get("at") ?? "");
		state.range = from !== null && to > from ? [from, to] : null;
		if (l)
			state.lane = laneKey(l);
		return changed;
	},
	changed() {
		if (!model || location.hash.slice(1) === place.text())
			return;
		if (place.read()) {
			map.layout();
			makeChart();
			drawLanes();
		}
		drawTimeline();
	},
};

function decoded(text) {
	try {
		return decodeURIComponent(text || "");
	} catch {
		return "";
	}
}

let drawWaits = 0;
function drawTimeline() {
	if (!drawWaits)
		drawWaits = requestAnimationFrame(() => {
			drawWaits = 0;
			drawNow();
		});
}

function drawNow() {
	if (chart) {
		chart.setSize({width: plotWidth(), height: chart.height});
		chart.setData(chartRows(shownCats()));
	}
	drawLegend();
	drawBands();
	map.draw();
	drawMoment();
	const l = lane(), [from, to] = range();
	const near = l?.exact && model.duration - model.first > l.exact[1] - l.exact[0] ?
		` Every change is here from ${clock(l.exact[0], model.duration)} to ${clock(l.exact[1], model.duration)}, around the peak; elsewhere, of each ` +
		"stretch of time its first, lowest, highest and last moment." : "";
	drawPhaseKey();
	drawEnd(l);
	$("chart-note").textContent = `${span(to - from)} shown. Drag to zoom, Ctrl and wheel too; arrows move; a click holds a moment and puts it into the page's address, Esc lets go.${near}` +
		phasesLeftOut() +
		(!l?.pid && doc.bands.length > 4 ? " Steps are those of the first four processes; a process chosen above shows its own." : "") +
		(!feed.source ? "" : isOfSamples(l) ? ` One moment a second.${unseenPeak(l)}` : " Of each second of the last four minutes its highest moment, before of longer stretches.") +
		(recompiles().length ? ` Red lines under the steps: torch.compile compiles again (${count(recompiles().length)} times).` : "") +
		(model.gaps.length ? ` Hatched: not traced, and drawn as high as ${isOfSamples(l) ? "was seen before it" : "what was traced before it was at most"} (docs/sampling.md); peaks, means and suspects are of what was traced.` : "") +
		(model.learned.length ? " Hatched and at its own height: allocations were seen, and categories are learned from similar steps; peaks and means do not count it." : "") +
		(doc.lanes_left_out ? " Some processes have no line of their own: there were too many." : "");
}

// A mark where a process ended long before the recording: its line is at zero from there on.
function drawEnd(l) {
	const e = $("ended"), x = l && l.ended !== null ? toX(l.ended) : NaN;
	e.hidden = !(x >= LEFT && x < plotWidth() - RIGHT - 8);
	$("ended-line").hidden = e.hidden;
	placeHair("ended-line", e.hidden ? null : l.ended);
	if (!e.hidden)
		besideOf(e, x);
}

/* --- steps and phases ------------------------------------------------------------------------------------- */

function canvas(id, height) {
	const c = $(id), k = devicePixelRatio, width = plotWidth();
	c.width = Math.round(width * k);
	c.height = Math.round(height * k);
	c.style.width = `${width}px`;
	c.style.height = `${height}px`;
	const ctx = c.getContext("2d");
	ctx.scale(k, k);
	ctx.font = '11px system-ui, "Liberation Sans", Arial, sans-serif';
	ctx.textBaseline = "middle";
	return ctx;
}

function label(ctx, text, x, w, y, color) {
	if (ctx.measureText(text).width > w - 6)
		return;
	ctx.fillStyle = color;
	ctx.fillText(text, x + 3, y);
}

function drawPhaseKey() {
	const procs = bandProcs(), there = PHASES.filter((k) => procs.some((p) => p[k].count));
	$("phase-key").replaceChildren(...there.map((k) => h("span", null, h("span", {class: "swatch", style: {background: css(`--${k}`)}}), k)),
		model.gaps.length || model.learned.length ? h("span", null, h("span", {class: "swatch gap"}), "not traced") : "");
}

function laneProcs() {
	const l = lane();
	return doc.bands.filter((b) => (b.steps.count || PHASES.some((k) => b[k].count)) && (!l?.pid || b.pid === l.pid));
}

function bandProcs() { // as many processes as there is room for
	return laneProcs().slice(0, 4);
}

const ROW = 17;

function drawBands() {
	const procs = bandProcs(), many = procs.length > 1;
	const ctx = canvas("bands", Math.max(1, procs.length * (2 * ROW + 4)));
	const [from, to] = range(), end = plotWidth() - RIGHT, light = css("--band-light"), dark = css("--band-text");
	const colors = {a: css("--step-a"), b: css("--step-b")};
	procs.forEach((p, n) => {
		const y = n * (2 * ROW + 4) + 2;
		ctx.fillStyle = css("--dim");
		ctx.textAlign = "right";
		ctx.fillText(many ? `${p.pid}` : "steps", LEFT - 6, y + ROW / 2);
		ctx.fillText(many ? "" : "phases", LEFT - 6, y + ROW + ROW / 2);
		ctx.textAlign = "left";
		ctx.save();
		ctx.beginPath();
		ctx.rect(LEFT, y, end - LEFT, 2 * ROW);
		ctx.clip();
		drawSteps(ctx, p, from, to, y, colors, dark);
		for (const kind of PHASES) {
			const color = css(`--${kind}`);
			for (const [t, life] of p[kind].rows) {
				if (t + life < from || t > to)
					continue;
				const x = toX(t), w = Math.max(toX(t + life) - x, 0.5);
				ctx.fillStyle = color;
				ctx.fillRect(x, y + ROW, w, ROW - 2);
				label(ctx, kind, Math.max(x, LEFT), Math.min(x + w, end) - Math.max(x, LEFT), y + ROW + ROW / 2 - 1,
				      kind === "optimizer" ? light : dark);
			}
		}
		paintGaps(ctx, y + ROW, ROW - 2, 1);
		ctx.restore();
	});
	ctx.fillStyle = css("--bad");
	for (const oom of doc.ooms)
		if (oom.t >= from && oom.t <= to)
			ctx.fillRect(toX(oom.t) - 1, 0, 2, procs.length * (2 * ROW + 4));
	drawRecompiles(ctx, from, to, toX, procs);
}

const recompiles = () => (model.report.compiles?.rows || []).filter((c) => !c.before);

// A red line under the process while torch.compile compiled again.
function drawRecompiles(ctx, from, to, toX, procs) {
	ctx.fillStyle = css("--bad");
	for (const c of recompiles()) {
		const t = c.t - model.report.start_ns, y = procs.findIndex((p) => p.pid === c.pid);
		if (y >= 0 && t + c.ns >= from && t <= to)
			ctx.fillRect(toX(t), (y + 1) * (2 * ROW + 4) - 4, Math.max(toX(t + c.ns) - toX(t), 2), 3);
	}
}

// Covers what was drawn in gaps: only steps are known there.
function paintGaps(ctx, y, height, alpha) {
	const gaps = [...model.gaps, ...model.learned], pattern = gaps.length ? hatched(ctx, 1, 7) : null;
	for (const [x, w] of gapsShown(toX, gaps)) {
		ctx.globalAlpha = alpha;
		ctx.fillStyle = css("--ground");
		ctx.fillRect(x, y, w, height);
		ctx.globalAlpha = 1;
		ctx.fillStyle = pattern;
		ctx.fillRect(x, y, w, height);
	}
}

// Steps of a process in which its state is still being made.
const isSettling = (p, number) => (model.report.phases?.steps || []).some((s) => s.settling && s.pid === p.pid && s.number === number);

function drawSteps(ctx, p, from, to, y, colors, dark) {
	const rows = p.steps.rows, end = plotWidth() - RIGHT, seen = rows.filter(([t, life]) => t + life >= from && t <= to);
	if (!seen.length)
		return;
	// Too narrow to be distinguished: one band, with their number.
	if (seen.length > (end - LEFT) / 3) {
		const x = Math.max(toX(seen[0][0]), LEFT), w = Math.min(toX(seen.at(-1)[0] + seen.at(-1)[1]), end) - x;
		ctx.fillStyle = colors.b;
		ctx.fillRect(x, y, w, ROW - 2);
		label(ctx, `steps ${seen[0][2]} to ${seen.at(-1)[3] ?? seen.at(-1)[2]}`, x, w, y + ROW / 2 - 1, dark);
		return;
	}
	const wide = (toX(seen.at(-1)[0] + seen.at(-1)[1]) - toX(seen[0][0])) / seen.length;
	for (const [t, life, first, last] of seen) {
		const x = toX(t), w = Math.max(toX(t + life) - x, 0.5), left = Math.max(x, LEFT), room = Math.min(x + w, end) - left;
		const text = last === undefined ? String(first) : `${first}–${last}`;
		const settling = isSettling(p, first);
		ctx.fillStyle = settling ? css("--soft") : first % 2 ? colors.a : colors.b;
		ctx.fillRect(x, y, w, ROW - 2);
		if (wide > 24)
			label(ctx, wide > 70 ? `step ${text}${settling ? ", settling" : ""}` : text, left, room, y + ROW / 2 - 1, settling ? css("--dim") : dark);
	}
}

/* Where phases are drawn, if there are more than the page has. */
function phasesLeftOut() {
	const lists = bandProcs().flatMap((p) => PHASES.map((k) => p[k])).filter((list) => list.rows.length < list.count);
	if (!lists.length)
		return "";
	const from = Math.max(...lists.map((list) => list.rows[0]?.[0] ?? 0));
	const to = Math.min(...lists.map((list) => list.rows.length ? list.rows.at(-1)[0] + list.rows.at(-1)[1] : 0));
	return to > from ? ` All phases are here from ${clock(from, model.duration)} to ${clock(to, model.duration)}, around the peak.` :
		" Phases are here around the peak only.";
}

// Which of these processes was in a step at that time (its begin excluded, its end included), and in which. If several were, the step
// that ended first, as in the report.
function stepOf(procs, t) {
	const steps = procs.map((p) => [p, p.steps.rows.find(([at, life]) => at < t && t <= at + life)]).filter(([, step]) => step);
	return steps.sort(([, a], [, b]) => a[0] + a[1] - b[0] - b[1])[0] || [procs[0], null];
}

// "in step 12", in the report's words. The peak's step is known even if steps are joined.
function stepWords(p, step, t, is_all) {
	const number = is_all && doc.peak_step?.t === t ? doc.peak_step.number : step?.[3] === undefined ? step?.[2] : undefined;
	if (number !== undefined)
		return `in step ${number}${p && isSettling(p, number) ? " (settling)" : ""}`;
	return step ? `in steps ${step[2]} to ${step[3]}` : "";
}

function bandsAt(t, steps_only) {
	const [p, step] = stepOf(laneProcs(), t);
	const phases = steps_only || !p ? [] : PHASES.filter((kind) => p[kind].rows.some(([at, life]) => at <= t && t <= at + life));
	return [stepWords(p, step, t, !lane().pid), ...phases].filter(Boolean).join(", ");
}

/* --- the map of blocks ------------------------------------------------------------------------------------ */

const map = {
	height: 240, rows: [], total: 1,

	// Address space that none of these blocks uses is drawn as a thin gap.
	layout() {
		const l = lane();
		this.rows = [];
		this.total = 1;
		if (!l)
			return;
		const list = model.blocks.filter((b) => b.dev === l.dev && (!l.pid || b.pid === l.pid) && b.size > 0);
		list.sort((a, b) => a.pid - b.pid || a.at - b.at);
		const used = list.reduce((sum, b) => sum + b.size, 0);
		let y = 0, end = 0, pid = -1;
		const gap = used / 400;
		for (const b of list) {
			if (pid !== b.pid || b.at > end) {
				y += pid < 0 ? 0 : pid !== b.pid ? 4 * gap : Math.min(b.at - end, gap);
				end = b.at;
			}
			// `y` is where `end` lies.
			this.rows.push({b, y: y - (end - b.at), h: b.size});
			if (b.at + b.size > end) {
				y += b.at + b.size - end;
				end = b.at + b.size;
			}
			pid = b.pid;
		}
		this.total = Math.max(y, 1);
	},

	draw() {
		const ctx = canvas("map", this.height), [from, to] = range(), end = plotWidth() - RIGHT, k = (this.height - 2) / this.total;
		ctx.fillStyle = css("--soft");
		ctx.fillRect(LEFT, 0, end - LEFT, this.height);
		ctx.fillStyle = css("--dim");
		ctx.textAlign = "right";
		ctx.fillText("addresses", LEFT - 6, 8);
		ctx.save();
		ctx.beginPath();
		ctx.rect(LEFT, 0, end - LEFT, this.height);
		ctx.clip();
		for (const {b, y, h: height} of this.rows) {
			if (b.freed < from || b.allocated > to || state.hidden.has(b.cat))
				continue;
			const x = toX(b.allocated), w = Math.max(toX(b.freed) - x, 0.7), tall = Math.max(height * k, 0.7);
			ctx.fillStyle = COLORS[b.cat];
			ctx.fillRect(x, this.height - 1 - y * k - tall, w > 3 ? w - 0.5 : w, tall > 3 ? tall - 0.5 : tall);
		}
		paintGaps(ctx, 0, this.height, 0.75);
		ctx.restore();
		if (!doc.blocks) {
			$("map-note").textContent = `Below: the ${count(this.rows.length)} largest blocks of the peak, by address and time; unused addresses are folded.`;
			return;
		}
		const {all, byte_ns: whole, byte_ns_shown: shown} = doc.blocks;
		$("map-note").textContent = `Below: ${count(this.rows.length)} blocks of this lane by address and time. The page holds the ` +
			`${count(model.blocks.length)} heaviest of ${count(all)} blocks, ${percent(shown, whole)} of all bytes × time; unused addresses are folded.`;
	},

	at(x, y) {
		const t = toT(x), k = (this.height - 2) / this.total, slack = (range()[1] - range()[0]) / plotWidth();
		let best = null;
		for (const r of this.rows) {
			const bottom = this.height - 1 - r.y * k, tall = Math.max(r.h * k, 1.5);
			if (t >= r.b.allocated - slack && t <= r.b.freed + slack && y <= bottom && y >= bottom - tall && !state.hidden.has(r.b.cat))
				if (!best || r.b.size < best.size)
					best = r.b;
		}
		return best;
	},
};

function blockLines(b) {
	return [`${bytes(b.size)} ${b.cat}`, b.name, b.what, madeBy(b), b.region && `in ${b.region}`,
		b.module && `made by ${b.module}`,
		`${clock(b.allocated, model.duration)} to ${b.lives ? "the end" : clock(b.freed, model.duration)}, ${span(b.freed - b.allocated)}`,
		`${b.ptr} on ${b.dev}, process ${b.pid}`];
}

/* --- one moment ------------------------------------------------------------------------------------------- */

function placeHair(id, t) {
	const on = t !== null && t >= range()[0] && t <= range()[1], e = $(id);
	e.hidden = !on;
	e.style.display = on ? "block" : "none";
	if (on)
		e.style.left = `${toX(t)}px`;
}

function drawMoment() {
	const l = lane(), box = $("moment");
	placeHair("hair", state.hover);
	placeHair("pin", state.held);
	if (!l) {
		box.replaceChildren();
		return;
	}
	const t = state.hover ?? state.held ?? l.peakT, c = composition(l, momentAt(l, t)), visible = range()[1] - range()[0], gap = gapAt(t);
	const over = l.ended !== null && t > l.ended ? "nothing any more, and the process has ended since" : "";
	const title = state.hover !== null ? "Under the pointer" : state.held !== null ? (state.held === l.peakT ? (isOfSamples(l) ? "Held: the highest seen" : "Held: the peak") : state.held === doc.held?.t ? `Held: ${doc.held.at}` : "Held") : isOfSamples(l) ? "The highest moment seen" : "At the peak";
	const contents = (of) => h("table", null, h("tbody", null, ...CATEGORIES.filter((n) => of.parts[n]).sort((a, b) => of.parts[b] - of.parts[a]).map((n) =>
		h("tr", null, h("td", {class: "text"}, swatch(n), n),
		  h("td", {title: `${of.parts[n]} bytes`}, bytes(of.parts[n])), h("td", null, percent(of.parts[n], of.total))))));
	if (gap) {
		const high = highestBefore(l).get(gap) ?? -1, before = high >= 0 && composition(l, high);
		box.replaceChildren(h("h3", null, title), h("div", {class: "total"}, "not traced"),
			h("div", {class: "where"}, [`${clock(t, Math.min(visible, 1e9))} after the start`, bandsAt(t, true)].filter(Boolean).join(", ")),
			h("p", {class: "note"}, `From ${clock(gap.from, model.duration)} to ${clock(gap.to, model.duration)} the probes were away: what lived then is not known.`),
			...before ? [h("h3", {style: {marginTop: "10px"}}, `${isOfSamples(l) ? "Seen before it:" : "Traced before it: at most"} ${bytes(before.total)}`), contents(before)] : []);
		return;
	}
	const there = model.blocks.filter((b) => b.allocated <= t && t < b.freed && b.dev === l.dev && (!l.pid || b.pid === l.pid))
		.sort((a, b) => b.size - a.size).slice(0, 8);
	box.replaceChildren(h("h3", null, title), h("div", {class: "total", title: `${c.total} bytes`}, bytes(c.total)),
		h("div", {class: "where"}, [`${clock(t, Math.min(visible, 1e9))} after the start`, over, bandsAt(t)].filter(Boolean).join(", ")),
		...isLearned(t) ? [h("p", {class: "note"}, "Not traced: what it was is learned from similar steps that were.")] : [],
		contents(c), ...byUse(l, t),
		h("h3", {style: {marginTop: "10px"}}, "Largest blocks then"),
		there.length ? h("table", null, h("tbody", null, ...there.map((b) => h("tr", {title: blockLines(b).filter(Boolean).join("\n")},
			h("td", {class: "text"}, swatch(b.cat), bytes(b.size)),
			h("td", {class: "name"}, b.name || madeBy(b),
			  b.module && !b.name ? h("span", {class: "whose"}, b.module) : "")))))
			: h("p", {class: "empty"}, "none that the page holds"));
}

/* The composition of a device's peak by use, if it differs from the chart's, which has torch.profiler's categories. */
function byUse(l, t) {
	const of = !l.pid && t === l.peakT && model.report.devices[l.dev], cats = of ? Object.entries(of.categories) : [];
	const use = (c) => c.at_peak_plain ?? c.at_peak;
	if (!cats.some(([, c]) => Math.abs(use(c) - c.at_peak) * 100 > of.peak))
		return [];
	const list = cats.filter(([, c]) => use(c)).sort(([, a], [, b]) => use(b) - use(a)).map(([name, c]) => `${bytes(use(c))} ${name}`);
	return [h("p", {class: "note"}, `In torch.profiler's words. By what it is there for, as the verdict counts it: ${list.join(", ")}. An export with --classes extended draws it so.`)];
}

/* --- tables ----------------------------------------------------------------------------------------------- */

/*
 * columns: {key, head, cls, cell(row), value(row) to sort by}. Sorting, filter and length are kept in state.tables by id.
 */
function table(id, columns, rows, sort, opts) {
	const s = Object.assign(state.tables[id] ||= {down: true, filter: "", all: false}, {sort: state.tables[id]?.sort || sort});
	const col = columns.find((c) => c.key === s.sort) || columns[0], value = col.value || ((r) => r[col.key]);
	const match = rows.filter((r) => !s.filter || opts.text(r).toLowerCase().includes(s.filter.toLowerCase()));
	match.sort((a, b) => {
		const x = value(a), y = value(b), d = typeof x === "string" ? y.localeCompare(x) : y - x;
		return (opts.last ? opts.last(a) - opts.last(b) : 0) || (s.down ? d : -d);
	});
	const shown = s.all ? match : match.slice(0, opts.rows);
	const again = (change) => {
		Object.assign(s, change);
		opts.again();
	};
	const head = columns.map((c) => h("th", {class: c.cls ? "text" : null, scope: "col",
		"aria-sort": c.key === s.sort ? (s.down ? "descending" : "ascending") : null},
	h("button", {onclick: () => again(c.key === s.sort ? {down: !s.down} : {sort: c.key, down: !c.cls})}, c.head)));
	const body = shown.map((r) => h("tr", null, ...columns.map((c) => {
		const cell = c.cell ? c.cell(r) : r[c.key];
		return h("td", {class: c.cls, title: c.title ? c.title(r) : c.cls ? String(r[c.key] ?? "") : null}, cell);
	})));
	return [h("div", {class: "scroll"}, h("table", null, h("thead", null, h("tr", null, ...head)), h("tbody", null, ...body))),
		!match.length ? h("p", {class: "empty"}, "nothing") : match.length > opts.rows ?
			h("button", {style: {marginTop: "6px"}, onclick: () => again({all: !s.all})},
			  s.all ? `the first ${opts.rows}` : `all ${count(match.length)}`) : null].filter(Boolean);
}

function filterBox(id, what, again) {
	const s = state.tables[id];
	return h("input", {type: "search", size: Math.max(20, what.length + 9), placeholder: `filter ${what}`, "aria-label": `filter ${what}`, value: s ? s.filter : "", oninput: (e) => {
		const at = e.target.selectionStart;
		(state.tables[id] ||= {down: true, all: false}).filter = e.target.value;
		again();
		const box = document.querySelector(`#${id.split("-")[0]} input`);
		box.focus();
		box.setSelectionRange(at, at);
	}});
}

const inBytes = (key, head) => ({key, head, cell: (r) => bytes(r[key]), title: (r) => `${r[key]} bytes`});

function drawOps() {
	const r = model.report, kind = state.table, all = kind === "ops" ?
		[...r.ops, {name: "(no operator open)", ...r.no_op, count: 0}] : r.regions;
	const list = all.filter((x) => x.live || x.at_peak || x.alloc_bytes);
	const sum = Object.values(r.devices).reduce((a, d) => a + d.peak, 0) || (r.host ? r.host.peak : 0);
	const total = kind === "ops" ? r.ops_total : r.regions_total;
	const columns = [{key: "name", head: kind === "ops" ? "operator" : "region or backward node", cls: "name"}, inBytes("live", "live"),
		inBytes("at_peak", "at the peak"), {key: "share", head: "of the peak", value: (x) => x.at_peak, cell: (x) => percent(x.at_peak, sum)},
		inBytes("alloc_bytes", "allocated"), {key: "alloc_count", head: "blocks", cell: (x) => count(x.alloc_count)},
		{key: "count", head: "calls", cell: (x) => count(x.count)}];
	const tab = (name, text) => h("button", {"aria-pressed": String(kind === name), onclick: () => {
		state.table = name;
		drawOps();
	}}, text);
	$("ops").replaceChildren(h("div", {class: "bar"}, h("h2", null, "What allocates"),
		h("div", null, tab("ops", "Operators"), " ", tab("regions", "Regions and nodes"), " ", r.modules ? tab("modules", "With module") : ""),
		filterBox(`ops-${kind}`, "names", drawOps)),
	...kind === "modules" ? opsWithModule(r.modules) : table(`ops-${kind}`, columns, list, "at_peak", {rows: 14, text: (x) => x.name, again: drawOps}),
	kind !== "modules" && total > all.length ? h("p", {class: "note"}, `The ${list.length} heaviest of ${count(total)}.`) : "");
}

function opsWithModule(modules) {
	const rows = modules.ops.map((o) => ({...o, called: o.op || "(no operator open)", forward: o.phases.forward || 0, backward: o.phases.backward || 0,
		where: o.pid === undefined ? "–" : o.module_root === null ? noName() : [o.module_root, o.module].filter(Boolean).join(".")}));
	const columns = [{key: "called", head: "operator", cls: "some", cell: (o) => bare(o.called)}, {key: "where", head: "module", cls: "name"}, inBytes("alloc_bytes", "allocated"),
		inBytes("forward", "forward"), inBytes("backward", "backward"), {key: "alloc_count", head: "blocks", cell: (x) => count(x.alloc_count)}];
	return [...table("ops-modules", columns, rows, "alloc_bytes", {rows: 14, text: (x) => `${x.called} ${x.where}`, again: drawOps}),
		modules.ops_total > rows.length ? h("p", {class: "note"}, `The ${rows.length} heaviest of ${count(modules.ops_total)}.`) : ""];
}

/* --- memory after each operator ------------------------------------------------------------------------------ */

// Either all operators in columns, or those of one step one by one.
function optraceView() {
	const o = doc.optrace, step = state.optrace === "step" ? o.step : null;
	return step ? {n: step.allocated.length, each: 1, first: step.first, low: step.allocated, high: step.allocated, reserved: step.reserved,
		op: step.op, phase: step.phase.map((p) => o.phases[p]), created: step.created, marks: step.marks, ops: step.ops} :
		{n: o.high.length, each: o.each, first: 0, low: o.low, high: o.high, reserved: o.reserved, op: o.op, marks: o.marks, ops: o.ops};
}

// 1, 2, 5, 10 … for numbers; 1, 2, 4 … KiB for bytes.
function niceStep(most, about, is_bytes) {
	let step = 1;
	for (let k = 0; most / step > about; k++)
		step *= is_bytes ? 2 : [2, 2.5, 2][k % 3];
	return step;
}

const OPTRACE = {left: 68, right: 10, top: 18, bottom: 34, height: 250};

function drawOptrace() {
	const o = doc.optrace;
	$("optrace").hidden = !o;
	if (!o)
		return;
	if (!o.step)
		state.optrace = "all";
	const tab = (kind, text) => h("button", {"aria-pressed": String(state.optrace === kind), onclick: () => {
		state.optrace = kind;
		state.op = null;
		drawOptrace();
	}}, text);
	const v = optraceView(), line = (name, text) => h("span", null, h("i", {style: {borderColor: `var(--${name})`}}), text);
	const step = o.step && (o.step.number === undefined ? "The last step" : `Step ${o.step.number}`);
	const phases = PHASES.filter((p) => v.phase?.includes(p));
	$("optrace").replaceChildren(
		h("div", {class: "bar"}, h("h2", null, "Memory after each operator"),
			h("div", null, o.step ? tab("step", `${step}, the highest`) : "", " ", tab("all", `All ${count(o.ops)} operators`))),
		h("div", {id: "optrace-key"}, line("allocated", o.totals ? "allocated, active" : "allocated = active = reserved (no caching allocator)"),
			o.totals ? line("reserved", "reserved") : "", line("fw-start", "fw_start"), line("fw-bw-boundary", "fw_bw_boundary"),
			v.marks.some((m) => m[1] === "step") ? line("step", "step") : "",
			...phases.map((p) => h("span", null, h("i", {class: "phase", style: {background: `var(--${p})`}}), p))),
		h("canvas", {id: "optrace-plot", tabindex: "0", role: "img", "aria-label": "memory after each operator: arrows move from one to the next"}),
		h("p", {id: "optrace-at", class: "note", "aria-live": "polite"}),
		h("p", {class: "note"}, `Outermost operators of process ${o.pid} on ${o.dev}, in the order in which they were entered; a value is what there was when one was left.` +
			(v.each > 1 ? ` A column is ${v.each} operators, from their lowest to their highest.` : "") + (v.n < v.ops && v.each === 1 ? ` The first ${v.n} of its ${v.ops} operators.` : "") +
			(v.each > 1 && o.marks_each > 1 ? ` Marks of each ${o.marks_each}th step.` : "") + (o.left_out ? ` ${count(o.left_out)} operators are left out.` : "")));
	const plot = $("optrace-plot"), at = (e) => Math.floor((e.offsetX - OPTRACE.left) / (plot.clientWidth - OPTRACE.left - OPTRACE.right) * v.n);
	plot.addEventListener("mousemove", (e) => chooseOp(at(e)));
	plot.addEventListener("mouseleave", () => chooseOp(null));
	plot.addEventListener("keydown", (e) => {
		const by = {ArrowLeft: -1, ArrowRight: 1, Home: -v.n, End: v.n}[e.key];
		if (!by || e.ctrlKey || e.metaKey || e.altKey)
			return;
		e.preventDefault();
		e.stopPropagation();
		chooseOp(state.op === null ? (by > 0 ? 0 : v.n - 1) : Math.max(0, Math.min(v.n - 1, state.op + by)));
	});
	paintOptrace();
}

function chooseOp(i) {
	const v = optraceView();
	state.op = i === null || i < 0 || i >= v.n ? null : i;
	paintOptrace();
}

function opWords(v, i) {
	const name = model.name(v.op[i]) || "?", number = v.first + i * v.each;
	const where = v.each > 1 ? `operators ${number} to ${number + v.each - 1}, highest after ${name}` : `operator ${number}: ${name}`;
	return [where, v.phase ? v.phase[i] : "", v.low[i] === v.high[i] ? `${bytes(v.high[i])} allocated` : `${bytes(v.low[i])} to ${bytes(v.high[i])} allocated`,
		v.reserved ? `${bytes(v.reserved[i])} reserved` : "", v.created && v.created[i] ? `${bytes(v.created[i])} made in it` : ""].filter(Boolean).join(", ");
}

function paintOptrace() {
	const v = optraceView(), plot = $("optrace-plot"), k = devicePixelRatio, width = plot.clientWidth, {left, right, top, bottom, height} = OPTRACE;
	plot.width = Math.round(width * k);
	plot.height = Math.round(height * k);
	plot.style.height = `${height}px`;
	const ctx = plot.getContext("2d"), most = Math.max(...v.high, ...(v.reserved || []), 1) * 1.05;
	const x = (i) => left + (width - left - right) * i / v.n, y = (b) => height - bottom - (height - top - bottom) * b / most;
	ctx.scale(k, k);
	ctx.font = '11px system-ui, "Liberation Sans", Arial, sans-serif';
	ctx.textBaseline = "middle";
	ctx.fillStyle = css("--dim");
	ctx.strokeStyle = css("--line");
	ctx.textAlign = "right";
	for (let b = 0, by = niceStep(most, 6, true); b <= most; b += by) {
		ctx.beginPath();
		ctx.moveTo(left, Math.round(y(b)) + 0.5);
		ctx.lineTo(width - right, Math.round(y(b)) + 0.5);
		ctx.stroke();
		ctx.fillText(bytes(b), left - 6, y(b));
	}
	ctx.textAlign = "center";
	const total = v.n * v.each, by = niceStep(total, Math.max(2, (width - left - right) / 90), false);
	for (let i = 0; i < total; i += by)
		ctx.fillText(String(v.first + i), Math.max(x(i / v.each), left + 4), height - bottom + 20);
	paintPhases(ctx, v, x, height - bottom + 3);
	paintMarks(ctx, v, x, width);
	paintValues(ctx, v, x, y, v.reserved, null, css("--reserved"));
	paintValues(ctx, v, x, y, v.high, v.low, css("--allocated"));
	if (state.op !== null) {
		ctx.fillStyle = css("--dim");
		ctx.fillRect(x(state.op + 0.5), top, 1, height - top - bottom);
	}
	$("optrace-at").textContent = state.op === null ? "Point at an operator, or go from one to the next with the arrows." : opWords(v, state.op);
}

function paintPhases(ctx, v, x, y) {
	for (let i = 0, from = 0; v.phase && i < v.n; i++) {
		if (i + 1 < v.n && v.phase[i + 1] === v.phase[i])
			continue;
		if (PHASES.includes(v.phase[i])) {
			ctx.fillStyle = css(`--${v.phase[i]}`);
			ctx.fillRect(x(from), y, Math.max(x(i + 1) - x(from), 0.5), 7);
		}
		from = i + 1;
	}
}

function paintMarks(ctx, v, x, width) {
	const {top, bottom, height, right} = OPTRACE, end = width - right;
	ctx.textAlign = "left";
	v.marks.forEach(([at, name, number], i) => {
		const here = x(at / v.each), next = i + 1 < v.marks.length ? x(v.marks[i + 1][0] / v.each) : end;
		ctx.fillStyle = css(`--${name.replaceAll("_", "-")}`);
		ctx.fillRect(Math.round(here), top, name === "step" ? 1 : 1.5, height - top - bottom);
		label(ctx, number === undefined ? name : `step ${number}`, here, Math.max(next, here) - here, top - 8, ctx.fillStyle);
	});
}

// A staircase: it goes along the highest value of each column, and down to its lowest and up again.
function paintValues(ctx, v, x, y, high, low, color) {
	if (!high)
		return;
	ctx.strokeStyle = color;
	ctx.lineWidth = 1.5;
	ctx.beginPath();
	for (let i = 0; i < v.n; i++) {
		ctx.lineTo(x(i), y(high[i]));
		if (low && low[i] !== high[i]) {
			ctx.lineTo(x(i + 0.5), y(high[i]));
			ctx.lineTo(x(i + 0.5), y(low[i]));
			ctx.lineTo(x(i + 0.5), y(high[i]));
		}
		ctx.lineTo(x(i + 1), y(high[i]));
	}
	ctx.stroke();
	ctx.lineWidth = 1;
}

function spark(low) {
	const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), path = document.createElementNS(ns, "path");
	const most = Math.max(...low, 1);
	svg.setAttribute("width", "72");
	svg.setAttribute("height", "18");
	svg.setAttribute("class", "spark");
	path.setAttribute("d", low.map((v, i) => `${i ? "L" : "M"}${1 + i * 70 / Math.max(low.length - 1, 1)},${16 - 14 * v / most}`).join(""));
	svg.append(path);
	return svg;
}

function drawGrowth() {
	const all = model.report.leaks, w = model.report.leaks_watched, several = new Set(all.map((l) => l.per)).size > 1;
	const rows = all.map((l) => ({...l, name: l.op || "(no operator open)", age: l.oldest_age_ns}));
	const allocatedAt = (l) => (l.stack || []).map((f) => f.line ? `${f.function} (${f.file}:${f.line})` : f.function).join("\n");
	const columns = [{key: "name", head: "operator", cls: "name", title: (l) => allocatedAt(l) || l.name},
		{key: "region", head: "region", cls: "some", cell: (l) => l.region || "–", value: (l) => l.region || ""},
		{key: "bytes_slope", head: several ? "grows by" : all.length && all[0].per === "second" ? "a second" : "a step",
			cell: (l) => bytes(Math.round(l.bytes_slope)) + (several ? ` a ${l.per}` : "")},
		inBytes("live", "live"), {key: "blocks", head: "blocks", cell: (l) => count(l.blocks)},
		{key: "age", head: "oldest", cell: (l) => clock(l.age, model.duration)}, {key: "sure", head: "sure", cls: "text"},
		{key: "history", head: "across steps", value: (l) => l.bytes_slope, cell: (l) => spark(l.history)}];
	const none = w.blind ? "Nothing to say: no source of allocations was watched." : w.too_short ? `Too short to say: ${count(w.ticks)} ${w.tick}s.` : "None: no operator's blocks, in any region, kept growing in number.";
	$("growth").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Leak suspects")),
		...(rows.length ? table("growth", columns, rows, "bytes_slope", {rows: 14, text: (l) => l.name, again: drawGrowth}) : [h("p", {class: "empty"}, none)]),
		h("p", {class: "note"}, "Blocks that live across steps and, after a quarter of the time, keep growing in number. Caches that fill slowly look the same." +
			(w.total > rows.length ? ` The first ${rows.length} of ${count(w.total)}.` : "") +
			(w.not_watched ? ` ${count(w.not_watched)} blocks were not watched: no room.` : "")));
}

function drawPeakBlocks() {
	const r = model.report, peak = Object.values(r.devices).reduce((a, d) => a + d.peak, 0) || (r.host ? r.host.peak : 0);
	const rows = r.peak_blocks.map((b) => ({...b, name: b.name || b.op || "(no operator open)", module: maker(b.module_root, b.module), allocated: b.born_ns - r.start_ns}));
	const columns = [inBytes("size", "size"), {key: "share", head: "of the peak", value: (b) => b.size, cell: (b) => percent(b.size, peak)},
		{key: "cat", head: "category", cls: "text", cell: (b) => h("span", null, swatch(b.cat), b.cat)},
		{key: "name", head: "name or operator", cls: "name", cell: (b) => bare(b.name), title: (b) => b.name === b.op ? b.op : `${b.name}\n${b.op || "no operator open"}`},
		r.modules ? {key: "module", head: "module", cls: "some wide", cell: (b) => b.module || "–"} :
			{key: "region", head: "region", cls: "some wide", cell: (b) => b.region || "–", value: (b) => b.region || ""},
		{key: "allocated", head: "allocated", cell: (b) => clock(Math.max(b.allocated, 0), model.duration)}];
	$("peak-blocks").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Largest blocks at the peak")),
		...table("peakblocks", columns, rows, "size", {rows: 10, text: (b) => b.name, again: drawPeakBlocks}));
}

function drawProcesses() {
	const list = model.report.processes, read = list.some((p) => p.use), often = list.some((p) => p.use_over_time);
	const own = (p) => p.use ? p.use.private : -1, ends = (p) => p.use_over_time.map((u) => u.private);
	const columns = [{key: "pid", head: "pid"}, {key: "comm", head: "process", cls: "name", title: (p) => p.cmdline}, {key: "state", head: "state", cls: "text"},
		inBytes("live", "live"), inBytes("peak", "peak"),
		{key: "rss", head: "RSS", value: (p) => p.rss.total, cell: (p) => p.rss.total ? bytes(p.rss.total) : "–"},
		{key: "rsspeak", head: "RSS peak", value: (p) => p.rss.peak, cell: (p) => bytes(p.rss.peak)},
		...read ? [{key: "private", head: "private", value: own, cell: (p) => p.use ? bytes(p.use.private) : "–"}] : [],
		...often ? [{key: "over", head: "private over time", value: own, cell: (p) => p.use_over_time ? spark(ends(p)) : "–",
			title: (p) => p.use_over_time && `${bytes(ends(p)[0])} at first, ${bytes(ends(p).at(-1))} at the last of ${ends(p).length} readings; the most ${bytes(Math.max(...ends(p)))}`}] : []];
	$("processes").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Processes")),
		...table("processes", columns, list, "peak", {rows: 10, text: (p) => p.comm, again: drawProcesses}));
}

/* --- modules ---------------------------------------------------------------------------------------------- */

// A squarified treemap: rows along the shorter side; a row takes the next box as long as its boxes come closer to squares.
function squarify(items, x, y, w, h) {
	const out = [], sum = items.reduce((s, it) => s + it.size, 0), scale = sum ? w * h / sum : 0;
	let rest = items.filter((it) => it.size > 0).sort((a, b) => b.size - a.size);
	const worst = (row, total, side) => Math.max(...row.map((it) => {
		const a = it.size * scale, wide = total * scale / side;
		return Math.max(wide * wide / a, a / (wide * wide));
	}));
	while (rest.length) {
		const side = Math.min(w, h), row = [];
		let total = 0;
		while (rest.length > row.length) {
			const next = rest[row.length];
			if (row.length && worst([...row, next], total + next.size, side) > worst(row, total, side))
				break;
			row.push(next);
			total += next.size;
		}
		const wide = side > 0 ? total * scale / side : 0;
		let at = 0;
		for (const it of row) {
			const long = wide > 0 ? it.size * scale / wide : 0;
			out.push(w >= h ? {it, x, y: y + at, w: wide, h: long} : {it, x: x + at, y, w: long, h: wide});
			at += long;
		}
		if (w >= h) {
			x += wide;
			w -= wide;
		} else {
			y += wide;
			h -= wide;
		}
		rest = rest.slice(row.length);
	}
	return out;
}

const noName = () => model.report.coverage.complete ? "(no name)" : "(no name yet)"; // of a module that no reading of Python's objects has found
const moduleName = (m) => m.name === null ? noName() : m.name ? `${m.root}.${m.name}` : m.root;

// A module's parts by a measure: the modules in it, and what was allocated while it was the innermost. -1: the whole.
function moduleParts(modules, children, i, measure) {
	const parts = (children.get(i) || []).map((k) => [modules.list[k], k]).map(([m, k]) => ({m, k, size: m.all[measure],
		text: i < 0 || m.name === null ? moduleName(m) : m.name.slice(modules.list[i].name ? modules.list[i].name.length + 1 : 0)}));
	const own = i < 0 ? modules.none : modules.list[i].own;
	const rest = i < 0 ? 0 : modules.list[i].all[measure] - own[measure] - parts.reduce((sum, p) => sum + p.size, 0);
	if (rest > 0) // modules that are not in the list
		parts.push({m: null, k: i, size: rest, text: "further modules", cls: "none"});
	return [...parts, {m: null, k: i, size: own[measure], text: i < 0 ? "in no module" : "itself", cls: i < 0 ? "none" : "itself"}];
}

function drawModules() {
	const modules = model.report.modules;
	$("modules").hidden = !modules;
	if (!modules)
		return;
	const measure = state.moduleMeasure, path = [], children = new Map();
	modules.list.forEach((m, k) => {
		if (!children.has(m.parent ?? -1))
			children.set(m.parent ?? -1, []);
		children.get(m.parent ?? -1).push(k);
	});
	if (!modules.list[state.module])
		state.module = -1;
	for (let i = state.module; i >= 0; i = modules.list[i].parent ?? -1)
		path.unshift(i);
	const choose = (i) => () => {
		state.module = i;
		drawModules();
	};
	const tree = h("div", {id: "tree"});
	const columns = [{key: "called", head: "module", cls: "name"}, {key: "class", head: "class", cls: "some"}, inBytes("activation", "activation"),
		{key: "at_peak", head: "at the peak", value: (m) => m.all.at_peak, cell: (m) => bytes(m.all.at_peak)},
		{key: "own", head: "itself", value: (m) => m.own.at_peak, cell: (m) => bytes(m.own.at_peak)}, inBytes("parameter", "parameter"), inBytes("gradient", "gradient"),
		inBytes("optimizer_state", "state"), inBytes("peak_forward", "peak in forward"), inBytes("peak_backward", "peak in backward")];
	const rows = modules.list.map((m) => ({...m, called: moduleName(m)}));
	if (rows.some((m) => m.pid !== rows[0].pid))
		columns.splice(1, 0, {key: "pid", head: "process", cls: "text", cell: (m) => processName(model, m.pid)});
	$("modules").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Modules"),
		h("div", null, ...Object.keys(MODULE_MEASURES).filter((k) => k in modules.none).flatMap((k) => [h("button", {"aria-pressed": String(k === measure), onclick: () => {
			state.moduleMeasure = k;
			drawModules();
		}}, MODULE_MEASURES[k]), " "])), filterBox("modules", "modules", drawModules)),
	h("div", {class: "path"}, h("button", {onclick: choose(-1)}, "all"), ...path.map((i) => h("button", {onclick: choose(i)}, `› ${moduleName(modules.list[i])}`))), tree,
	...table("modules", columns, rows, "at_peak", {rows: 10, text: (m) => `${m.called} ${m.class}`, again: drawModules}),
	h("p", {class: "note"}, "Blocks that a module's forward or backward made (docs/modules.md); activation: at its own highest moment." +
		(modules.total > rows.length ? ` The ${rows.length} heaviest of ${count(modules.total)} modules.` : "")));
	const list = [], put = (i, x, y, w, hgt, depth) => {
		for (const b of squarify(moduleParts(modules, children, i, measure), x, y, w, hgt)) {
			if (b.w < 3 || b.h < 3 || list.length >= 2000)
				continue;
			const inside = b.it.m && depth < 3 && b.w > 40 && b.h > 40 && children.has(b.it.k);
			list.push(h("button", {class: b.it.cls || `d${depth}`, title: `${b.it.m ? moduleName(b.it.m) : b.it.text}${b.it.m && b.it.m.class ? ` (${b.it.m.class})` : ""}\n${bytes(b.it.size)}`,
				style: {left: `${b.x}px`, top: `${b.y}px`, width: `${b.w}px`, height: `${b.h}px`}, "data-bytes": b.it.size, "data-depth": depth,
				onclick: choose(b.it.m ? b.it.k : i)}, h("span", null, b.w > 24 && b.h > 14 ? `${b.it.text} ${bytes(b.it.size)}` : "")));
			if (inside)
				put(b.it.k, b.x + 2, b.y + 18, b.w - 4, b.h - 20, depth + 1);
		}
	};
	put(state.module, 0, 0, tree.clientWidth, tree.clientHeight, 0);
	tree.replaceChildren(...(list.length ? list : [h("p", {class: "empty"}, "nothing")]));
}

// What autograd keeps from forward to backward (docs/saved.md).
const madeIn = (k) => k.module === null ? k.module_root || "–" :
	`${[k.module_root || "(not told yet)", k.module].filter(Boolean).join(".")}${k.modules > 1 ? ` (${k.modules})` : ""}`;
function drawSaved() {
	const saved = model.report.saved, rows = (saved?.list || []).map((k) => ({...k, made: madeIn(k), by: k.op || k.region || "(no operator open)",
		again: k.recompute ?? "–"}));
	$("saved").hidden = !rows.length;
	if (!rows.length)
		return;
	const all = saved.processes.reduce((sum, p) => sum + p.bytes, 0), several = saved.processes.length > 1;
	const columns = [{key: "made", head: "made in", cls: "name", title: (k) => `${k.made}${k.class ? ` (${k.class})` : ""}`},
		{key: "by", head: "by", cls: "some"}, {key: "node", head: "kept for", cls: "some"},
		...(rows.some((k) => k.recompute !== null) ? [{key: "again", head: "recompute", cls: "some"}] : []), inBytes("bytes", "bytes"),
		{key: "share", head: "of all", value: (k) => k.bytes, cell: (k) => percent(k.bytes, all)},
		{key: "blocks", head: "blocks", cell: (k) => count(k.blocks)}, inBytes("largest", "largest"),
		...(several ? [{key: "pid", head: "process", cls: "text", cell: (k) => processName(model, k.pid)}] : [])];
	const said = saved.processes.map((p) => `${several ? `${processName(model, p.pid)}: ` : ""}${bytes(p.bytes)} in ${count(p.blocks)} blocks when the largest of ${count(p.passes)} backward passes began, of ${bytes(p.live)} live; at the last one ${bytes(p.last_bytes)}.`);
	const left = saved.processes.reduce((sum, p) => sum + p.no_room_bytes, 0);
	$("saved").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Kept for backward"), filterBox("saved", "modules and operators", drawSaved)),
		...said.map((text) => h("p", {class: "note"}, text)),
		...table("saved", columns, rows, "bytes", {rows: 10, text: (k) => `${k.made} ${k.by} ${k.node} ${k.class || ""}`, again: drawSaved}),
		h("p", {class: "note"}, (saved.total > rows.length ? `The ${rows.length} largest of ${count(saved.total)}. ` : "") +
			(left ? `${bytes(left)} of it found no room and are in no row. ` : "") +
			withName("Checkpointed, the module under “recompute” (or one around it) does not keep it; what that changes: memtrace estimate FILE --checkpoint MODULE.")));
}

// Lines of what torch.compile's inductor wrote, and what they allocated (docs/compiled.md).
function drawGenerated() {
	const generated = model.report.generated, rows = (generated?.list || []).map((g) => ({...g, buffer: g.buffer || "", nodes: g.nodes || "",
		where: g.where || "", graph: [g.graph, g.returned ? "returned" : ""].filter(Boolean).join(", ")}));
	$("generated").hidden = !rows.length;
	if (!rows.length)
		return;
	const columns = [inBytes("bytes", "allocated"), {key: "count", head: "blocks", cell: (g) => count(g.count)},
		{key: "buffer", head: "buffer", cls: "some wide"}, {key: "op", head: "operator", cls: "name", cell: (g) => bare(g.op)},
		{key: "nodes", head: "made of", cls: "some wide"}, {key: "graph", head: "graph", cls: "text"},
		{key: "where", head: "line", cls: "text", cell: (g) => shortFile(g.where)}];
	$("generated").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Generated code"), filterBox("generated", "lines", drawGenerated)),
		...table("generated", columns, rows, "bytes", {rows: 10, text: (g) => `${g.buffer} ${g.op} ${g.nodes} ${g.graph} ${g.where}`, again: drawGenerated}),
		h("p", {class: "note"}, "Lines of torch.compile's files by what they allocated; a buffer that takes another's memory over stands behind it." +
			(generated.total > rows.length ? ` The ${count(rows.length)} heaviest of ${count(generated.total)}.` : "")));
}

// "c5tz3y….py:860": a hash, and its line.
const shortFile = (where) => where.replace(/^(.{6}).{8,}(\.\w+:\d+)$/, "$1…$2");
// An operator's short name: a kernel's name says already that it is inductor's.
const bare = (op) => op.replace(/^inductor: (?!\()/, "");

// A guard that did not hold, and where it comes from: "self.k == 7 (train.py:5 in forward)".
const guardWords = (reason) => reason.replace(/ *  # (?:.*# )?(?:.*\/)?([^/]*:\d+ in \S+).*$/, " ($1)");

// What was compiled again, and why.
function drawRecompiled() {
	const rows = (model.report.compiles?.rows || []).map((c) => ({...c, why: c.failed || guardWords(c.reason), added: c.added || 0, live: c.live || 0,
		when: c.before ? "before the trace" : c.step ? `step ${c.step}` : clock(c.t - model.report.start_ns, 1e9)}));
	$("recompiles").hidden = !rows.length;
	if (!rows.length)
		return;
	const columns = [{key: "when", head: "when", cls: "text", value: (c) => c.t}, {key: "ns", head: "time", cell: (c) => span(c.ns)}, inBytes("added", "added"),
		inBytes("live", "live then"), {key: "function", head: "function", cls: "some"}, {key: "why", head: "because", cls: "name"}];
	$("recompiles").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Compiled again"), filterBox("recompiles", "functions and reasons", drawRecompiled)),
		...table("recompiles", columns, rows, "when", {rows: 10, text: (c) => `${c.when} ${c.function} ${c.why}`, again: drawRecompiled}));
}

// Blocks that Python has a name for, alive at the end; bytes by kind.
function drawNames() {
	const names = model.report.names;
	$("names").hidden = !names;
	if (!names)
		return;
	const rows = names.list.map((t) => ({...t, called: tensorName(t), type: t.dtype ? `${t.dtype}[${(t.shape || []).join(",")}]` : ""}));
	const columns = [inBytes("bytes", "size"), {key: "called", head: "name in Python", cls: "name", title: (t) => `${t.called}\n${t.ptr} on ${t.dev}, process ${t.pid}`},
		{key: "kind", head: "kind", cls: "text", cell: (t) => t.kind.replace("_", " ")}, {key: "type", head: "type", cls: "some"},
		{key: "root", head: "of", cls: "some"}, {key: "cat", head: "category", cls: "text", cell: (t) => h("span", null, swatch(t.cat), t.cat)}];
	const kinds = Object.entries(names.kinds).filter(([, k]) => k.count).map(([kind, k]) => `${kind.replace("_", " ")} ${bytes(k.bytes)} in ${count(k.count)}`);
	$("names").replaceChildren(h("div", {class: "bar"}, h("h2", null, "What Python calls them"), h("span", {class: "note"}, kinds.join(" · ")),
		filterBox("names", "names", drawNames)),
		...table("names", columns, rows, "bytes", {rows: 10, text: (t) => `${t.called} ${t.kind} ${t.root} ${t.type}`, again: drawNames}),
		...(names.total > rows.length ? [h("p", {class: "note"}, `The ${count(rows.length)} largest of ${count(names.total)}.`)] : []));
}

// Small multiples: each rank's live bytes over time, all on the same scale.
const RANKS_SHOWN = 256;
function rankFigure(r, most, outlier, several, jobs) {
	const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), path = document.createElementNS(ns, "path");
	const s = r.series, x = (i) => (200 * i / Math.max(s.length, 1)).toFixed(1), y = (v) => (44 - 42 * v / most).toFixed(1);
	svg.setAttribute("viewBox", "0 0 200 44");
	svg.setAttribute("preserveAspectRatio", "none");
	path.setAttribute("d", s.map((v, i) => v === null ? "" : `M${x(i)},44V${y(v)}H${x(i + 1)}V44Z`).join("")); // null: not traced
	svg.append(path);
	const where = several && r.host ? ` on ${r.host}` : "", bad = r.state !== "running" && r.state !== "detached" && r.state !== "exited 0";
	return h("figure", {class: outlier || bad ? "out" : null, title: `rank ${r.rank}${where}, process ${r.pid}: peak ${r.peak} bytes, ${r.steps_total} steps, ${r.state}`},
		svg, h("figcaption", null, `rank ${r.rank}: ${bytes(r.peak)}${bad ? `, ${r.state}` : ""}`), jobs && r.job ? h("figcaption", null, r.job) : "", several && r.host ? h("figcaption", null, r.host) : "");
}

// The composition of the highest rank's peak beside the median rank's.
function rankPeaks(k) {
	const worst = k.list[k.highest_index], median = k.list[k.median_index];
	if (!worst || !median || worst === median)
		return [];
	const rows = CATEGORIES.map((cat) => ({cat, worst: (worst.categories[cat] || {at_peak: 0}).at_peak, median: (median.categories[cat] || {at_peak: 0}).at_peak}))
		.filter((r) => r.worst || r.median);
	return [h("table", {class: "peaks"}, h("thead", null, h("tr", null, h("th", {class: "text"}, "at its peak"), h("th", null, `rank ${worst.rank}`),
		h("th", null, `median: rank ${median.rank}`), h("th", null, "more"))),
	h("tbody", null, ...rows.map((r) => h("tr", null, h("td", {class: "text"}, swatch(r.cat), r.cat), h("td", null, bytes(r.worst)),
		h("td", null, bytes(r.median)), h("td", null, bytes(r.worst - r.median))))))];
}

// How far the ranks are apart: for each step (or interval, if there are no steps) a band from the lowest to the highest rank's maximum,
// with the median as a line.
function imbalanceRows(k) {
	if (k.steps.length > 1)
		return k.steps.map((s) => ({at: `step ${s.number}`, min: s.min, median: s.median, max: s.max, rank: s.max_rank}));
	return k.over_time.max_median_min.map(([max, median, min], i) => ({at: `after ${span(k.over_time.bucket_ns * i)}`, min, median, max}))
		.filter((r) => r.max !== null);
}
function imbalanceFigure(k) {
	const rows = imbalanceRows(k), apart = (r) => r.max - r.min, most = Math.max(...rows.map((r) => r.max), 1);
	if (rows.length < 2 || k.count < 2 || k.jobs > 1)
		return [];
	const worst = rows.reduce((a, r) => apart(r) > apart(a) ? r : a), low = Math.min(...rows.map((r) => r.min)), floor = low > most / 2 && low < most ? low - (most - low) / 4 : 0; // all alike: a line at the top
	const W = 1000, H = 150, x = (i) => (W * i / rows.length).toFixed(1), y = (v) => (H - (H - 4) * (v - floor) / (most - floor)).toFixed(1);
	const along = (key, back) => (back ? [...rows.keys()].reverse() : [...rows.keys()])
		.map((i) => back ? `L${x(i + 1)},${y(rows[i][key])}L${x(i)},${y(rows[i][key])}` : `L${x(i)},${y(rows[i][key])}L${x(i + 1)},${y(rows[i][key])}`).join("");
	const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
	svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
	svg.setAttribute("preserveAspectRatio", "none");
	for (const [cls, d] of [["band", `M${along("max").slice(1)}${along("min", true)}Z`], ["median", `M${along("median").slice(1)}`]]) {
		const path = document.createElementNS(ns, "path");
		path.setAttribute("class", cls);
		path.setAttribute("d", d);
		svg.append(path);
	}
	const words = (r) => `${r.at}: lowest ${bytes(r.min)}, median ${bytes(r.median)}, highest ${bytes(r.max)}${r.rank === undefined ? "" : ` (rank ${r.rank})`}, ` +
		`${bytes(apart(r))} apart`;
	const at = h("figcaption", {class: "at"}, `The most: ${words(worst)}.`);
	svg.onpointermove = (e) => {
		const box = svg.getBoundingClientRect();
		at.textContent = `${words(rows[Math.max(0, Math.min(rows.length - 1, Math.floor(rows.length * (e.clientX - box.left) / box.width)))])}.`;
	};
	svg.onpointerleave = () => at.textContent = `The most: ${words(worst)}.`;
	return [h("h3", null, "Imbalance"), h("p", {class: "note"}, `${k.steps.length > 1 ? "By step: each rank's highest in it" : "Over time"}, from the lowest rank to the highest; the line is the median.`),
		h("figure", {class: "imbalance"}, h("div", {class: "scale"}, h("span", null, bytes(most)), h("span", null, bytes(floor))), svg,
			h("div", {class: "ends"}, h("span", null, rows[0].at), h("span", null, rows[rows.length - 1].at)), at)];
}

function drawRanks() {
	const k = model.report.ranks;
	$("ranks").hidden = !k;
	if (!k)
		return;
	const out = (r) => k.outliers.find((o) => k.list[o.index] === r), first = k.outliers[0];
	const most = Math.max(...k.list.map((r) => r.peak), 1), several = new Set(k.list.map((r) => r.machine)).size > 1;
	const said = first ? `Rank ${first.rank} stands out: ${bytes(Math.abs(first.more))} ${first.more < 0 ? "below" : "above"} the median rank, ` +
		`${bytes(Math.abs(first.category_more))} of that in ${first.category}.` : "No rank stands out.";
	$("ranks").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Ranks")),
		h("p", {class: "note"}, `${said} Live bytes (${k.memory}) of each rank over the whole recording, on one scale; numbers are peaks.` +
			(k.missing_total ? ` Not in this recording: ${k.missing.join(", ")}${k.missing_total > k.missing.length ? " …" : ""} of ${k.world_size}.` : "")),
		h("div", {class: "ranks"}, ...k.list.slice(0, RANKS_SHOWN).map((r) => rankFigure(r, most, out(r), several, k.jobs > 1))),
		k.list.length > RANKS_SHOWN ? h("p", {class: "note"}, `The first ${RANKS_SHOWN} of ${count(k.list.length)}.`) : "",
		...imbalanceFigure(k), ...rankPeaks(k));
}

function drawSegments() {
	const rows = doc.segments.map((s) => ({...s, unused: s.totals ? s.reserved - s.allocated : s.cached - s.blocks}));
	$("segments").hidden = !rows.length;
	if (!rows.length)
		return;
	const columns = [{key: "dev", head: "device", cls: "text"}, inBytes("live", "from the driver"), inBytes("peak", "peak"),
		inBytes("cached", "of it cached"), inBytes("other", "of it other"), inBytes("blocks", "in live blocks"),
		{key: "reserved", head: "reserved, as reported", cell: (s) => s.totals ? bytes(s.reserved) : "–"},
		inBytes("unused", "reserved, not in use"), inBytes("inactive", "free beside live blocks"), inBytes("free_cached", "in empty segments"),
		inBytes("largest_free", "largest free range")];
	const pools = Object.entries(model.report.devices).flatMap(([dev, d]) => (d.segments?.private_pools || []).map((p) => ({...p, dev, rest: p.reserved - p.used})));
	$("segments").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Fragmentation")),
		...table("segments", columns, rows, "live", {rows: 16, text: (s) => s.dev, again: drawSegments}), ...(pools.length ? privatePools(pools) : []));
}

// "1 to 3, 7", as the report has it: numbers in order of capture.
function graphsOf(p) {
	const all = p.captured || [], shown = [], more = (n) => n > 0 ? ` and ${count(n)} more` : "";
	if (all.length > 1 && all.at(-1).graph - all[0].graph === p.graphs - 1)
		return `${all[0].graph} to ${all.at(-1).graph}`;
	for (const {graph} of all.slice(0, 16))
		if (shown.length && shown.at(-1)[1] === graph - 1)
			shown.at(-1)[1] = graph;
		else
			shown.push([graph, graph]);
	const first = shown.slice(0, 3), told = first.reduce((n, [from, to]) => n + to - from + 1, 0);
	return first.map(([from, to]) => to > from ? `${from} to ${to}` : `${from}`).join(", ") + more(p.graphs - told) || "–";
}

// Memory pools of CUDA graphs and torch.cuda.MemPool: whose each is, and how much of it is free but of no use to others (docs/gpu.md).
function privatePools(pools) {
	const columns = [{key: "id", head: "private pool", cls: "text"}, {key: "dev", head: "device", cls: "text"}, inBytes("reserved", "reserved"),
		inBytes("used", "in tensors"), inBytes("rest", "in no tensor"), {key: "graphs", head: "graphs", cell: graphsOf},
		{key: "launches", head: "launches", cell: (p) => count(p.launches)}, {key: "begun_ns", head: "opened at", cell: (p) => p.begun_ns ? clock(p.begun_ns - model.report.start_ns, model.duration) : "–"},
		{key: "uses", head: "state", cls: "text", cell: (p) => p.uses ? "in use" : "left"}];
	return [h("h3", null, "Private pools"), ...table("segments-pools", columns, pools, "reserved", {rows: 8, text: (p) => p.id, again: drawSegments})];
}

/* --- the icicle ------------------------------------------------------------------------------------------- */

const MEASURES = {at_peak: "At the peak", live: "Live at the end", alloc_bytes: "Allocated"};
const MODULE_MEASURES = {...MEASURES, saved: "Kept for backward", recomputable: "Recomputation saves"};

function drawIcicle() {
	$("icicle").hidden = !doc.icicle;
	if (!doc.icicle)
		return;
	const nodes = model.nodes, m = state.measure;
	if (!nodes[state.root])
		state.root = 0;
	const root = nodes[state.root], children = new Map();
	for (const n of nodes)
		if (n.i) {
			if (!children.has(n.parent))
				children.set(n.parent, []);
			children.get(n.parent).push(n);
		}
	const tab = (key) => h("button", {"aria-pressed": String(key === m), onclick: () => {
		state.measure = key;
		drawIcicle();
	}}, MEASURES[key]);
	const path = [];
	for (let n = root; ; n = nodes[n.parent]) {
		path.unshift(n);
		if (!n.i)
			break;
	}
	const frames = h("div", {id: "frames"});
	$("icicle").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Where from: regions, nodes, operators"),
		h("div", null, ...Object.keys(MEASURES).flatMap((k) => [tab(k), " "])),
		h("span", {class: "key"}, ...KINDS.slice(1).flatMap((k, i) => i > 3 && !nodes.some((n) => n.kind === i + 1) ? [] : [h("span", {class: `swatch k${i + 1}`}), k]))),
	h("div", {class: "path"}, ...path.map((n, i) => h("button", {onclick: () => {
		state.root = n.i;
		drawIcicle();
	}}, `${i ? "› " : ""}${n.name} ${i === path.length - 1 ? bytes(n[m]) : ""}`))), frames,
	h("p", {class: "note"}, `A click zooms in. What nothing stands under was allocated there itself. ${model.nodes.length < doc.icicle.nodes ? `The ${count(model.nodes.length)} heaviest of ` +
		`${count(doc.icicle.nodes)} places; the rest is the empty part of what holds it.` : ""}`));
	if (!root[m]) {
		frames.replaceChildren(h("p", {class: "empty"}, "nothing"));
		return;
	}
	const width = frames.clientWidth, list = [];
	let depth = 0;
	const place = (n, x, w, d) => {
		depth = Math.max(depth, d);
		list.push(h("button", {class: `k${n.kind}`, style: {left: `${x}px`, width: `${w}px`, top: `${d * 20}px`},
			onclick: () => {
				state.root = n.i;
				tip(null, null);
				drawIcicle();
			},
			onmousemove: (e) => tip(e, [n.name || "(no name)", n.place ? `${KINDS[n.kind]}: ${n.place}` : KINDS[n.kind], `at the peak ${bytes(n.at_peak)}, ${percent(n.at_peak, nodes[0].at_peak)}`,
				`live ${bytes(n.live)}, allocated ${bytes(n.alloc_bytes)} in ${count(n.alloc_count)} blocks`]),
			onmouseleave: () => tip(null, null)}, w > 24 ? n.name : ""));
		for (const c of (children.get(n.i) || []).sort((a, b) => b[m] - a[m])) {
			const cw = w * c[m] / n[m];
			if (cw < 1.5)
				break;
			place(c, x, cw, d + 1);
			x += cw;
		}
	};
	place(root, 0, width, 0);
	frames.style.height = `${(depth + 1) * 20}px`;
	frames.replaceChildren(...list);
}

/* --- how complete it is ------------------------------------------------------------------------------------ */

function drawCoverage() {
	$("coverage").replaceChildren(h("h2", null, "What this rests on"),
		h("dl", null, ...doc.honesty.flatMap(([name, text]) => [h("dt", null, name),
			h("dd", null, feed.source ? text.replace("; the end is missing", " so far") : text)]),
			h("dt", null, "page by"), h("dd", null, `memtrace ${doc.version}, schema ${doc.schema}`)));
}

/* --- events ----------------------------------------------------------------------------------------------- */

function pointer() {
	const plots = $("plots");
	let down = null;
	const local = (e) => e.clientX - plots.getBoundingClientRect().left;
	const inside = (x) => x >= LEFT && x <= plotWidth() - RIGHT;
	plots.addEventListener("mousemove", (e) => {
		const x = local(e);
		state.hover = inside(x) ? toT(x) : null;
		drawMoment();
		const block = e.target.id === "map" && inside(x) ? map.at(x, e.offsetY) : null;
		tip(e, block ? blockLines(block) : null);
	});
	plots.addEventListener("mouseleave", () => {
		state.hover = null;
		tip(null, null);
		if (model)
			drawMoment();
	});
	plots.addEventListener("mousedown", (e) => {
		down = local(e);
	}, true);
	plots.addEventListener("mouseup", (e) => {
		const x = local(e), from = down;
		down = null;
		if (from === null || !inside(x))
			return;
		if (Math.abs(x - from) <= 4) {
			hold(toT(x));
		} else if (e.target.id === "map" || e.target.id === "bands") {
			setRange(toT(Math.min(x, from)), toT(Math.max(x, from)));
		}
	});
	plots.addEventListener("dblclick", () => setRange(model.first, model.duration));
	plots.addEventListener("wheel", (e) => {
		if (!e.ctrlKey && !e.metaKey)
			return;
		e.preventDefault();
		zoom(Math.exp(Math.max(-100, Math.min(100, e.deltaY)) / 250), toT(local(e)));
	}, {passive: false});
}

function keys() {
	const actions = {
		"+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => setRange(model.first, model.duration), p: toPeak,
		ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
		s: toStep, Escape: () => hold(null),
	};
	document.addEventListener("keydown", (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT)$/.test(e.target.tagName) || !model || !lane())
			return;
		if (actions[e.key]) {
			actions[e.key]();
			e.preventDefault();
		}
	});
	$("to-peak").onclick = toPeak;
	$("to-step").onclick = toStep;
	addEventListener("hashchange", place.changed);
	$("zoom-in").onclick = () => zoom(0.5);
	$("zoom-out").onclick = () => zoom(2);
	$("zoom-all").onclick = () => setRange(model.first, model.duration);
}

function pan(part) {
	const [from, to] = range(), by = part * (to - from);
	if (state.range)
		setRange(from + by, to + by);
}

function drawAll() {
	drawHead();
	drawVerdict();
	drawLanes();
	map.layout();
	makeChart();
	drawNow();
	drawOps();
	drawGrowth();
	drawOptrace();
	drawIcicle();
	drawPeakBlocks();
	drawProcesses();
	drawModules();
	drawSaved();
	drawGenerated();
	drawRecompiled();
	drawRanks();
	drawNames();
	drawSegments();
	drawCoverage();
}

// New data redraws everything. The focus stays where it was, and a range that ends at the last moment moves on with it.
function keepPlace(draw) {
	const was = document.activeElement, part = was?.closest("section, header"), all = () => [...part.querySelectorAll("button, input, select")];
	const at = part ? all().indexOf(was) : -1, caret = was?.tagName === "INPUT" ? was.selectionStart : null;
	draw();
	const now = at < 0 ? null : all()[at];
	if (now && now !== document.activeElement)
		now.focus({preventScroll: true});
	if (caret !== null && now?.tagName === "INPUT")
		now.setSelectionRange(caret, caret);
}

function show(part) {
	const last = model?.duration;
	doc = Object.assign(doc || {}, part);
	if (doc.schema !== 1)
		throw new Error(`data of schema ${doc.schema}; this page knows 1`);
	model = makeModel(doc);
	if (last === undefined && (location.hash.length > 1 || doc.held))
		place.read();
	if (!model.lanes.some((l) => laneKey(l) === state.lane) && model.lanes.length)
		state.lane = laneKey(firstLane());
	if (last === undefined && location.hash.length < 2 && !doc.held)
		beginAtStep();
	if (feed.source && state.range && state.range[1] >= last)
		state.range = state.range.map((t) => t + model.duration - last);
	keepPlace(drawAll);
}

/* --- news of a trace that goes on ------------------------------------------------------------------------- */

// The latest message is shown, unless the reader has paused the page or is in the middle of a click or drag.
const feed = {source: null, url: "", paused: false, pressed: false, news: null};

function feedState(text) {
	$("live").hidden = false;
	$("live-state").textContent = text;
	$("live-pause").textContent = feed.paused ? "Go on" : "Pause";
}

function takeNews() {
	if (feed.paused || feed.pressed || !feed.news)
		return;
	const text = feed.news;
	feed.news = null;
	try {
		show(JSON.parse(text));
		const r = model.report, at = new Date((r.start_ns + r.duration_ns) / 1e6).toLocaleTimeString();
		$("live-pause").hidden = r.coverage.complete;
		feedState(r.coverage.complete ? "The traced processes have ended; these are the last numbers." : `Live, ${at}`);
	} catch (e) {
		feed.source.close();
		fail(e);
	}
}

function listen() {
	feed.source = new EventSource(feed.url);
	feed.source.onmessage = (e) => {
		feed.news = e.data;
		takeNews();
	};
	feed.source.onerror = () => {
		feedState("Nobody answers; trying again.");
		if (feed.source.readyState === EventSource.CLOSED) // it tries again by itself, except after an answer like 503
			setTimeout(listen, 5000);
	};
}

function startFeed(url) {
	feed.url = url;
	feedState("Waiting for the first numbers.");
	$("live-pause").onclick = () => {
		feed.paused = !feed.paused;
		feedState(feed.paused ? "Paused." : "Live");
		takeNews();
	};
	document.addEventListener("pointerdown", () => feed.pressed = true, true);
	for (const end of ["pointerup", "pointercancel"])
		document.addEventListener(end, () => setTimeout(() => { // after the click that it makes
			feed.pressed = false;
			takeNews();
		}), true);
	listen();
}

function fail(e) {
	$("failure").hidden = false;
	$("failure").textContent = `The page could not be drawn: ${e.message}`;
	console.error(e);
}

let lastWidth = 0;
function start() {
	let data;
	try {
		const text = $("data").textContent;
		data = text.trim() ? JSON.parse(text) : null;
		if (data?.diff)
			return drawDiff(data.diff);
	} catch (e) {
		return fail(e);
	}
	pointer();
	keys();
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => model && drawAll());
	new ResizeObserver(() => {
		if (model && plotWidth() !== lastWidth) {
			lastWidth = plotWidth();
			drawTimeline();
			drawModules();
			drawIcicle();
			if (doc.optrace)
				paintOptrace();
		}
	}).observe($("plots"));
	try {
		if (data?.feed)
			startFeed(data.feed);
		else if (data)
			show(data);
		lastWidth = plotWidth();
	} catch (e) {
		fail(e);
	}
}

// For serve, which feeds the page, and for tests.
window.memtrace = {show, state, feed, composition: (t) => composition(lane(), momentAt(lane(), t)), model: () => model, colors: COLORS, categories: CATEGORIES};
start();
