// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * The page of a diff (memtrace diff -o): both runs over time or by step in one chart, and what grew. Words, tables and colours are
 * page.js's, which calls drawDiff in place of all else where the document is one of a diff. Here, too, names become text nodes only.
 */
"use strict";

const diffState = {dev: "", by: 0, steps: false, chart: null};

function diffSigned(v, words) {
	return v > 0 ? `+${words(v)}` : v < 0 ? `−${words(-v)}` : words(0);
}

const diffColors = () => [css("--allocated"), css("--reserved")];

/* --- both in one chart -------------------------------------------------------------------------------------- */

// [x, highest or null] of one side; x is a step's number, or seconds since the start of what is compared.
function diffLine(side) {
	if (diffState.steps) { // of several processes, the highest counts
		const highest = new Map();
		for (const [number, peak] of side.steps)
			highest.set(number, Math.max(peak, highest.get(number) || 0));
		return [...highest].sort((a, b) => a[0] - b[0]);
	}
	return (side.devices[diffState.dev]?.points || []).map(([t, v]) => [(t - side.from_ns) / 1e9, v]);
}

function diffData(sides) {
	return uPlot.join(sides.map((s) => {
		const line = diffLine(s);
		return [line.map((p) => p[0]), line.map((p) => p[1])];
	}), [[2], [2]]); // the line passes over points that only the other side has, but stops in its own gaps
}

function drawDiffChart(d) {
	const colors = diffColors(), text = {stroke: css("--dim"), font: '12px system-ui, "Liberation Sans", Arial, sans-serif', ticks: {show: false},
		grid: {stroke: css("--line"), width: 1}};
	diffState.chart?.destroy();
	const data = diffData(d.sides), moment = $("diff-moment");
	if (!data[0].length) {
		moment.textContent = "Neither has this.";
		diffState.chart = null;
		return;
	}
	const told = (i) => d.sides.map((s, k) => `${"AB"[k]} ${data[k + 1][i] === null || data[k + 1][i] === undefined ? "–" : bytes(data[k + 1][i])}`).join(", ");
	const rest = diffState.steps ? "Highest bytes of each step. Drag to zoom, double-click for all." :
		"Highest bytes; 0 s is where what the tables compare begins. Drag to zoom, double-click for all.";
	moment.textContent = rest;
	diffState.chart = new uPlot({
		width: Math.max($("diff-chart").clientWidth, 200), height: innerWidth < 600 ? 220 : 300, padding: [8, 8, 0, 0], legend: {show: false},
		scales: {x: {time: false}, y: {range: (u, min, max) => [0, max > 0 ? max * 1.04 : 1]}},
		axes: [{...text, size: 26, space: 90, values: (u, v) => v.map((x) => diffState.steps ? (Number.isInteger(x) ? `${x}` : "") : `${+x.toFixed(6)} s`)},
			{...text, size: 76, incrs: byteSteps(), space: 36, values: (u, v) => v.map(bytes)}],
		cursor: {points: {show: false}, drag: {x: true, y: false}},
		series: [{}, ...d.sides.map((s, i) => ({label: "AB"[i], stroke: colors[i], width: i ? 1.5 : 2, dash: i ? [6, 3] : undefined, points: {show: false}}))],
		hooks: {setCursor: [(u) => {
			const i = u.cursor.idx;
			moment.textContent = i === null || i === undefined ? rest :
				`${diffState.steps ? `step ${data[0][i]}` : `${data[0][i].toFixed(3)} s`}: ${told(i)}`;
		}]},
	}, data, $("diff-chart"));
}

/* --- what grew ---------------------------------------------------------------------------------------------- */

function diffColumns(t) {
	const whole = (v) => v === undefined ? "–" : bytes(Math.round(v));
	const number = (v) => v === undefined ? "–" : count(+v.toFixed(v < 100 ? 1 : 0));
	const per = t.per === "step" ? "a step" : "a second";
	const end = t.per === "step" && t.by !== "name" && t.by !== "rank" ? "after a step" : "at the end";
	const all = [["mean", "on average", whole], ["at_peak", "at the peak", whole], ["live", end, whole], ["alloc_bytes", `allocated ${per}`, whole],
		["count", `times ${per}`, number]];
	const columns = [{key: "name", head: t.by, cls: "name"}];
	for (const [key, head, words] of all.filter(([k]) => t.rows.some((r) => r.change[k] !== undefined)))
		columns.push(...["a", "b"].map((side) => ({key: `${key}_${side}`, head: side === "a" ? `${head}: A` : "B", cell: (r) => words(r[side][key]),
			value: (r) => r[side][key] ?? 0})),
		{key: `${key}_change`, head: "change", cell: (r) => r.change[key] === undefined ? "–" : diffSigned(+r.change[key].toFixed(1), words),
			value: (r) => r.change[key] ?? 0});
	return columns;
}

function drawDiffTable(d) {
	const t = d.tables[diffState.by], again = () => drawDiffTable(d), columns = diffColumns(t);
	const changes = columns.filter((c) => c.key.endsWith("_change"));
	const rows = t.rows.filter((r) => changes.some((c) => !/^(–|[+−]?0( B)?)$/.test(c.cell(r)))).map((r) => ({...r, name: r.name || "(none)"}));
	const same = t.rows.length - rows.length;
	$("diff-by").replaceChildren(...d.tables.map((x, i) => h("button", {"aria-pressed": String(i === diffState.by), onclick: () => {
		diffState.by = i;
		again();
	}}, x.by)));
	const sort = columns.find((c) => ["mean_change", "at_peak_change", "count_change"].includes(c.key)), of = (r) => sort?.value(r) ?? 0;
	const last = (r) => r.before_attach ? 1 : 0, grown = rows.filter((r) => !last(r)); // what differs by the attach alone is no growth
	state.tables[`diff-${t.by}`] ||= {down: of(grown[0] || {change: {}}) >= of(grown.at(-1) || {change: {}}), filter: "", all: false}; // in the order of the document's rows
	$("diff-rows").replaceChildren(...!rows.length ? [] : table(`diff-${t.by}`, columns, rows, sort?.key, {rows: 25, text: (r) => r.name, again, last}));
	$("diff-count").textContent = [rows.length ? "" : `No difference by ${t.by}.`, t.total > t.rows.length ? `The first ${t.rows.length} of ${t.total} rows.` : "",
		same ? `${count(same)} row${same === 1 ? " is" : "s are"} the same in both.` : "",
		...t.notes.filter((n) => !d.tables[0].notes.includes(n))].filter(Boolean).join(" "); // the first one's are at the top
}

/* --- the page ----------------------------------------------------------------------------------------------- */

function diffVerdict(s, i) {
	const file = /^[\w./@%+=:,-]+$/.test(s.file) ? s.file : `'${s.file}'`; // quoted for a shell
	return h("div", null, h("h2", null, h("span", {class: "swatch", style: {background: diffColors()[i]}}), `${"AB"[i]} · ${s.file}`),
		h("p", {class: "note"}, `${span(s.duration_ns)}, ${s.whole_steps ? `${count(s.whole_steps)} whole steps compared` : "no steps"}${s.lost ? `, ${count(s.lost)} events lost` : ""}`),
		h("ul", {class: "verdict"}, ...s.verdict.map((l) => h("li", {class: l.severity}, l.text, nextOf(l, file)))));
}

function diffFacts(d) {
	const facts = [];
	for (const dev of new Set(d.sides.flatMap((s) => Object.keys(s.devices)))) {
		const [a, b] = d.sides.map((s) => s.devices[dev]?.peak || 0);
		facts.push(h("div", null, h("dt", null, `${dev} peak`), h("dd", null, `${bytes(a)} → ${bytes(b)}`,
			h("small", null, ` ${diffSigned(b - a, bytes)}${a ? `, ${diffSigned(+(100 * (b - a) / a).toFixed(1), (v) => `${v} %`)}` : ""}`))));
	}
	return facts;
}

function diffButtons(d, redraw) {
	const devs = [...new Set(d.sides.flatMap((s) => Object.keys(s.devices)))], can = d.sides.every((s) => s.steps.length > 1);
	const button = (text, on, change) => h("button", {"aria-pressed": String(on), onclick: () => {
		Object.assign(diffState, change);
		redraw();
	}}, text);
	return [...(devs.length > 1 && !diffState.steps ? devs.map((x) => button(x, x === diffState.dev, {dev: x})) : []),
		...(can ? [button("by time", !diffState.steps, {steps: false}), button("by step", diffState.steps, {steps: true})] : [])];
}

function drawDiff(d) {
	const peak = (dev) => Math.max(...d.sides.map((s) => s.devices[dev]?.peak || 0));
	const devs = [...new Set(d.sides.flatMap((s) => Object.keys(s.devices)))], gpus = devs.filter((x) => x !== "cpu" && peak(x));
	diffState.dev = gpus.sort((a, b) => peak(b) - peak(a))[0] || devs[0] || "";
	document.title = "memtrace: a diff";
	$("title").textContent = "What changed from A to B";
	$("subtitle").textContent = d.sides.map((s, i) => `${"AB"[i]}: ${s.file}`).join(" · ");
	$("facts").replaceChildren(...diffFacts(d));
	const said = (d.tables.find((t) => t.by === "module") || d.tables[0])?.summary;
	$("verdict").replaceChildren(...[said, ...(d.tables[0]?.notes || [])].filter(Boolean).map((n) => h("li", null, n)));
	const chart = () => {
		$("diff-buttons").replaceChildren(...diffButtons(d, chart));
		drawDiffChart(d);
	};
	const verdicts = () => $("diff-verdicts").replaceChildren(...d.sides.map(diffVerdict));
	document.querySelector("main").replaceChildren(
		h("section", null, h("div", {class: "bar"}, h("h2", null, "Memory of both"),
			h("span", {class: "key"}, ...["A", "B"].flatMap((x, i) => [h("span", {class: `line ${"ab"[i]}`}), x])),
			h("div", {id: "diff-buttons", role: "group", "aria-label": "what the chart shows"})),
		h("div", {id: "diff-chart"}), h("p", {class: "note", id: "diff-moment"})),
		h("section", null, h("div", {class: "bar"}, h("h2", null, "What changed"), h("div", {id: "diff-by", role: "group", "aria-label": "rows"})),
			h("div", {id: "diff-rows"}), h("p", {class: "note", id: "diff-count"})),
		h("section", {class: "split even", id: "diff-verdicts"}));
	const all = () => {
		chart();
		verdicts();
	};
	drawDiffTable(d);
	all();
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
	let width = innerWidth;
	addEventListener("resize", () => {
		if (width !== innerWidth)
			chart();
		width = innerWidth;
	});
}
