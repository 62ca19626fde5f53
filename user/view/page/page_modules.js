// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* Modules, what is kept for backward, compiled code, names, ranks and pools; the icicle. */

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
