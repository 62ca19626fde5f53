// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
// The data functions of torch's memory viewer on one snapshot, without a browser: d3 is a thing that
// answers every call with itself. Usage: node memory_viz.mjs DIR-OF-MemoryViz.js SNAPSHOT
// Prints one JSON object: what the viewer understood.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [dir, file] = process.argv.slice(2);
const any = new Proxy(function () {}, {
  get: (t, k) => (k === Symbol.toPrimitive ? () => 1 : k === 'length' ? 0 : any),
  apply: () => any,
});
const read = name => fs.readFileSync(path.join(dir, name), 'utf8')
  .replace(/^import [^;]*;/gm, '').replace(/^export \{[^}]*\};?/gm, '').replace(/^export /gm, '');
const parts = ['process_alloc_data.js', 'MemoryViz.js'].filter(n => fs.existsSync(path.join(dir, n)));
const quiet = {log() {}, warn: console.warn, error: console.error};
const sandbox = vm.createContext({
  d3: any, axisLeft: any, scaleLinear: any, zoom: any, zoomIdentity: any, brushX: any, TextDecoder, console: quiet,
  window: any, document: any, navigator: any, URLSearchParams,
});
vm.runInContext(parts.map(read).join('\n') +
  '\nthis.v = {unpickle, annotate_snapshot, process_alloc_data, MemoryView, formatEvent};', sandbox);
const v = sandbox.v;

const bytes = fs.readFileSync(file);
const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const snapshot = file.endsWith('.json') ? JSON.parse(bytes.toString()) : v.unpickle(buffer);
v.annotate_snapshot(snapshot);
const out = {categories: [...snapshot.categories], devices: []};
snapshot.device_traces.forEach((trace, device) => {
  const data = v.process_alloc_data(snapshot, device, false, 15000);
  const view = v.MemoryView(any, any, snapshot, device);
  const drawn = [];
  for (let i = 0; i < 20; i++) { // the state after an event, simulated backward from the segments
    const idx = Math.floor((trace.length - 1) * i / 19);
    drawn.push([idx, ...view.draw(idx)]);
  }
  trace.forEach(e => v.formatEvent(e));
  out.devices.push({entries: trace.length, max_size: data.max_size, elements: data.elements_length, drawn});
});
console.log(JSON.stringify(out));
