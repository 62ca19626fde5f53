// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* Under the chart: steps and phases, blocks by address; beside it one moment. */

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
		const high = highestBefore(l).get(gap) ?? -1, before = high >= 0 && composition(l, high), [seen] = betweenShown(l, t, t + 1);
		box.replaceChildren(h("h3", null, title), h("div", {class: "total"}, seen ? `up to ${bytes(seen.live)}` : "not traced"),
			h("div", {class: "where"}, [`${clock(t, Math.min(visible, 1e9))} after the start`, bandsAt(t, true)].filter(Boolean).join(", ")),
			h("p", {class: "note"}, `From ${clock(gap.from, model.duration)} to ${clock(gap.to, model.duration)} steps were not traced. ${seen ? "At this time allocations were seen: how much lived is known, but not what it was." : "What lived then is not known."}`),
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
