// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* The page's head, verdict, lanes and legend. */

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
