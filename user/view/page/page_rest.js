// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* How complete the page is, what its parts show, keys and pointer, and news of a trace that goes on. Last: it starts the page. */

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
