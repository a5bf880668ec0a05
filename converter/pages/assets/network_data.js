"use strict";

// The packed network (converter/pages/network/node_values.py) as arrays that are drawn, searched and asked.
function readNetwork(packed, errors, times) {
  if (!packed) return null;
  const count = packed.names.length;
  const text = (column) => (node) => packed.texts[packed[column][node]];

  const drawn = sums(packed.drawn);
  const x = Float32Array.from(sums(packed.x)), y = Float32Array.from(sums(packed.y)), depth = sums(packed.depth);
  const place = new Int32Array(count).fill(-1); // of a node in `drawn`
  drawn.forEach((node, at) => { place[node] = at; });

  const edges = packed.edges.length / 2;
  const source = new Int32Array(edges), target = new Int32Array(edges);
  for (let edge = 0, before = 0; edge < edges; edge += 1) {
    before += packed.edges[2 * edge];
    source[edge] = before;
    target[edge] = before + packed.edges[2 * edge + 1];
  }
  const bends = new Map(); // by edge, x and y of each point
  for (let at = 0; at < packed.bends.length;) {
    const edge = packed.bends[at], points = packed.bends[at + 1];
    bends.set(edge, packed.bends.slice(at + 2, at + 2 + 2 * points));
    at += 2 + 2 * points;
  }

  const makers = new Int32Array(packed.values.length).fill(-1); // the node that makes a value
  for (let node = 0; node < count; node += 1) {
    for (const value of packed.outputs[node]) if (value >= 0) makers[value] = node;
  }
  const constant = new Set(packed.constant);
  const readers = new Map();
  for (let node = 0; node < count; node += 1) {
    for (const value of packed.inputs[node]) {
      if (value < 0) continue;
      const known = readers.get(value);
      if (known) known.push(node); else readers.set(value, [node]);
    }
  }

  // The largest error of the values that a node makes; errors of several kinds of runs are of one list.
  const error = new Float64Array(count).fill(NaN), wrong = new Uint8Array(count), errorsOf = new Map();
  for (const [node, value, size, reason] of errors || []) {
    if (node < 0) continue;
    const known = errorsOf.get(node);
    if (known) known.push([value, size, reason]); else errorsOf.set(node, [[value, size, reason]]);
    if (typeof size === "number" && !(error[node] >= size)) error[node] = size;
    if (reason) wrong[node] = 1;
  }
  const time = new Float64Array(count).fill(NaN), shared = new Map();
  for (const [node, [ms, nodes]] of Object.entries(times || {})) {
    time[node] = ms;
    if (nodes > 1) shared.set(Number(node), nodes);
  }

  // Where one looks for a node that is not drawn: its outer node, or the first that reads it.
  function standIn(node) {
    for (let steps = 0; steps < 64 && place[node] < 0; steps += 1) {
      if (packed.inside[node]) { node = packed.inside[node] - 1; continue; }
      const value = packed.outputs[node].find((one) => one >= 0 && readers.has(one));
      if (value === undefined) return -1;
      node = readers.get(value)[0];
    }
    return place[node] < 0 ? -1 : node;
  }

  function sums(differences) {
    let before = 0;
    return differences.map((difference) => (before += difference));
  }

  const name = text("names");
  const ROLES = ["", "input", "output"];
  return {
    count, drawn, x, y, depth, place, edges, source, target, bends, constant, makers, readers, error, wrong, errorsOf, time, shared,
    standIn,
    layered: packed.layered,
    name, op: text("ops"), route: text("routes"), rule: text("rules"), how: text("hows"), dtype: text("dtypes"), kept: text("kept"),
    attributes: text("attributes"), holds: text("holds"), where: text("where"),
    role: (node) => ROLES[packed.roles[node]],
    isNode: (node) => packed.roles[node] === 0,
    inside: (node) => packed.inside[node] - 1,
    inputs: (node) => packed.inputs[node],
    outputs: (node) => packed.outputs[node],
    valueName: (value) => packed.texts[packed.values[value]],
    valueType: (value) => packed.texts[packed.types[value]],
    // What a node is called: by its first output where it has no name.
    label: (node) => name(node) || (packed.outputs[node].length && packed.outputs[node][0] >= 0
      ? "makes " + packed.texts[packed.values[packed.outputs[node][0]]] : "unnamed"),
  };
}
