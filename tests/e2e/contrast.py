# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""How well texts of a page can be read: the contrast of each with what is behind it, as WCAG 2 reckons it (4.5 is its AA).

    with browser.open(None, ...) as page:
        contrast.watch(page)          before load(): texts in pictures are measured where they are drawn
        page.load(path)
        contrast.worst(page)          [(contrast, text, colour, ground, where), ...], the worst first
"""

# Of the canvas: the pixel under the text's begin, before it is drawn. A text that is drawn again is measured again.
WATCH = """
window.drawnTexts = new Map();
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const at = this.getTransform().transformPoint(new DOMPoint(x, y)), wide = this.measureText(text).width * devicePixelRatio;
    const left = at.x - {left: 0, start: 0, right: wide, end: wide, center: wide / 2}[this.textAlign];
    const up = {middle: 0, top: 4, hanging: 4, bottom: -4, alphabetic: -4, ideographic: -4}[this.textBaseline] * devicePixelRatio;
    const px = this.getImageData(Math.round(left + 1), Math.round(at.y + up), 1, 1).data;
    window.drawnTexts.set(`${this.canvas.id || this.canvas.parentElement.className} ${String(text).slice(0, 40)}`,
                          {color: String(this.fillStyle), alpha: this.globalAlpha, ground: [...px]});
    return draw.call(this, text, x, y, ...rest);
};
"""

WORST = """(() => {
    const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true}), known = new Map();
    const rgba = (text) => {
        if (!known.has(text)) {
            c.clearRect(0, 0, 1, 1);
            c.fillStyle = text;
            c.fillRect(0, 0, 1, 1);
            const d = c.getImageData(0, 0, 1, 1).data;
            known.set(text, [d[0], d[1], d[2], d[3] / 255]);
        }
        return [...known.get(text)];
    };
    const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
    const light = (c) => {
        const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const paper = rgba(getComputedStyle(document.documentElement).backgroundColor), found = [];
    const groundOf = (e) => {
        const layers = [];
        for (; e; e = e.parentElement) {
            const c = rgba(getComputedStyle(e).backgroundColor);
            layers.push(c);
            if (c[3] === 1)
                break;
        }
        return layers.reduceRight((under, top) => over(top, under), over(paper, [255, 255, 255, 1]));
    };
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const node = walk.currentNode, e = node.parentElement;
        if (!node.data.trim() || !e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || e.closest("script, style"))
            continue;
        let alpha = 1;
        for (let up = e; up; up = up.parentElement)
            alpha *= getComputedStyle(up).opacity;
        const style = getComputedStyle(e), ground = groundOf(e), svg = e.closest("svg"), color = rgba(svg ? style.fill : style.color);
        color[3] *= alpha;
        found.push({contrast: contrast(over(color, ground), ground), text: node.data.trim().slice(0, 40), color: style.color,
                    ground: ground.slice(0, 3).join(), where: `${e.tagName} ${e.id} ${e.className}`});
    }
    for (const [text, d] of window.drawnTexts ?? []) {
        const ground = over([...d.ground.slice(0, 3), d.ground[3] / 255], over(paper, [255, 255, 255, 1])), color = rgba(d.color);
        color[3] *= d.alpha;
        found.push({contrast: contrast(over(color, ground), ground), text, color: d.color, ground: ground.slice(0, 3).join(), where: "canvas"});
    }
    for (const e of document.querySelectorAll("input[placeholder]")) {
        const ground = groundOf(e), color = rgba(getComputedStyle(e, "::placeholder").color);
        if (e.checkVisibility())
            found.push({contrast: contrast(over(color, ground), ground), text: e.placeholder, color: "placeholder", ground: ground.join(), where: "INPUT"});
    }
    return found.sort((a, b) => a.contrast - b.contrast);
})()"""


def watch(page):
    page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)


def worst(page):
    return [(round(f["contrast"], 2), f["text"], f["color"], f["ground"], f["where"]) for f in page.js(WORST)]
