// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* The page's chart of memory over time, its zoom, and the page's address. */

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
	const seen = gapsShown(toX).flatMap(([, , g]) => betweenShown(l, g.from, g.to)).reduce((most, b) => Math.max(most, b.live), 0);
	return gapsShown(toX).map(([, , g]) => before.get(g) ?? -1).filter((i) => i >= 0)
		.reduce((most, i) => Math.max(most, shown.reduce((sum, name) => sum + l.cats[name][i], 0)), seen);
}

// The height that was measured, as a line, over the pale picture of what it was before.
function markBetween(u, l, gap) {
	const c = u.ctx, x = (t) => u.valToPos(t / 1e9, "x", true), [from, to] = range();
	c.strokeStyle = css("--text");
	c.lineWidth = devicePixelRatio;
	c.beginPath();
	const lines = [], least = (to - from) / 100; // as a whole: steps are shorter than that, or can be told apart
	for (const b of betweenShown(l, Math.max(gap.from, from), Math.min(gap.to, to))) {
		const last = lines.at(-1);
		if (last && b.from <= last.to + EPOCH_NS && b.to - last.from < least)
			Object.assign(last, {to: b.to, live: Math.max(last.live, b.live)});
		else
			lines.push({...b, isNext: last && b.from <= last.to + EPOCH_NS});
	}
	for (const b of lines) {
		const y = u.valToPos(b.live, "y", true);
		c[b.isNext ? "lineTo" : "moveTo"](x(b.from), y);
		c.lineTo(x(b.to), y);
	}
	c.stroke();
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
		markBetween(u, l, g);
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
		(l?.between.length ? " A line in it: allocations were seen, and this is how much lived." : "") +
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
