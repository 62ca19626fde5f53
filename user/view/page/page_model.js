// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* The page's model: numbers out of the document, without the DOM; and state, what the reader chose. */

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
	return {ended, dev: raw.dev, pid: raw.pid, live: raw.live, peak: raw.peak, peakT: raw.peak_t, exact: raw.exact, t, cats, total, between: makeBetween(raw.between)};
}

// During a trace: the highest live bytes of each stretch in gaps where allocations were seen, whose categories are not known.
function makeBetween(raw) {
	const rows = [];
	let t = 0, live = 0;
	for (let i = 0; i < (raw?.rows.length ?? 0); i += 2)
		rows.push({from: t += raw.rows[i], to: t + raw.bucket, live: live += raw.rows[i + 1]});
	return rows;
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
 * Stretches without tracing. Where allocations were seen all the same, that part is `learned`: bytes are true there,
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

// What was seen between `from` and `to`, as far as it lies in a gap.
const betweenShown = (lane, from, to) => lane.between.filter((b) => b.to > from && b.from < to)
	.map((b) => ({...b, from: Math.max(b.from, from), to: Math.min(b.to, to)}));

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
