// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* Tables of the page, and memory after each operator. */

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
	$("growth").replaceChildren(h("div", {class: "bar"}, h("h2", null, "Leak suspects")),
		...(rows.length ? table("growth", columns, rows, "bytes_slope", {rows: 14, text: (l) => l.name, again: drawGrowth}) : [h("p", {class: "empty"}, w.answer)]),
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
