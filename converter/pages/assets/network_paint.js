"use strict";

// Draws the part of the network that is in sight. Nodes are found by a grid, edges by their boxes; what would be smaller
// than a pixel is left out, labels come when they can be read.
function networkPainter(network, canvas) {
  const BOX_W = 152, BOX_H = 34, CELL = 512;
  const context = canvas.getContext("2d");
  const drawn = network.drawn.length;
  const { x, y, source, target, bends } = network;
  let colours = null, fills = [], group = new Uint8Array(drawn), dim = null, picked = -1, hover = -1;

  // Bounds of all, and of each edge.
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  for (let at = 0; at < drawn; at += 1) {
    left = Math.min(left, x[at]); right = Math.max(right, x[at]);
    top = Math.min(top, y[at]); bottom = Math.max(bottom, y[at]);
  }
  const bounds = drawn ? { left: left - BOX_W, top: top - BOX_H * 2, right: right + BOX_W, bottom: bottom + BOX_H * 2 }
    : { left: 0, top: 0, right: 1, bottom: 1 };
  const columns = Math.max(1, Math.ceil((bounds.right - bounds.left) / CELL));
  const rows = Math.max(1, Math.ceil((bounds.bottom - bounds.top) / CELL));
  const cells = new Map();
  const cellOf = (px, py) => Math.floor((px - bounds.left) / CELL) + columns * Math.floor((py - bounds.top) / CELL);
  for (let at = 0; at < drawn; at += 1) {
    const cell = cellOf(x[at], y[at]);
    const known = cells.get(cell);
    if (known) known.push(at); else cells.set(cell, [at]);
  }
  const box = new Float32Array(network.edges * 4), far = new Uint8Array(network.edges);
  for (let edge = 0; edge < network.edges; edge += 1) {
    const xs = [x[source[edge]], x[target[edge]]], ys = [y[source[edge]], y[target[edge]]];
    const points = bends.get(edge) || [];
    for (let at = 0; at < points.length; at += 2) { xs.push(points[at]); ys.push(points[at + 1]); }
    box.set([Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)], edge * 4);
    // an edge that leads to another column, or over so many rows that none of its bends was laid out
    far[edge] = y[target[edge]] < y[source[edge]] || (!points.length && y[target[edge]] - y[source[edge]] > 400) ? 1 : 0;
  }

  function setColours() {
    colours = { paper: Frame.colour("--paper"), ink: Frame.colour("--ink"), soft: Frame.colour("--soft"), line: Frame.colour("--edge"),
      raised: Frame.colour("--raised"), accent: Frame.colour("--accent") };
  }

  // view: {scale, x, y}: a place p of the network is at p * scale + x of the canvas, in CSS pixels.
  function paint(view, width, height) {
    if (!colours) setColours();
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, width, height);
    const scale = view.scale;
    const seen = { left: -view.x / scale - BOX_W, top: -view.y / scale - BOX_H, right: (width - view.x) / scale + BOX_W,
      bottom: (height - view.y) / scale + BOX_H };
    context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * view.x, ratio * view.y);
    paintEdges(seen, scale);
    const inSight = nodesIn(seen);
    paintNodes(inSight, scale);
    return inSight.length;
  }

  function nodesIn(area) {
    const found = [];
    const fromColumn = Math.max(0, Math.floor((area.left - bounds.left) / CELL));
    const toColumn = Math.min(columns - 1, Math.floor((area.right - bounds.left) / CELL));
    const fromRow = Math.max(0, Math.floor((area.top - bounds.top) / CELL));
    const toRow = Math.min(rows - 1, Math.floor((area.bottom - bounds.top) / CELL));
    for (let row = fromRow; row <= toRow; row += 1) {
      for (let column = fromColumn; column <= toColumn; column += 1) {
        for (const at of cells.get(column + columns * row) || []) {
          if (x[at] >= area.left && x[at] <= area.right && y[at] >= area.top && y[at] <= area.bottom) found.push(at);
        }
      }
    }
    return found;
  }

  function paintEdges(seen, scale) {
    if (scale < 0.012) return;
    const curved = scale > 0.15;
    context.lineWidth = Math.max(1, 0.6 / scale);
    context.strokeStyle = colours.line;
    for (const pass of [0, 1]) {
      if (pass === 1 && scale < 0.03) break;
      context.globalAlpha = pass ? 0.3 : scale < 0.1 ? 0.5 : 1;
      context.beginPath();
      for (let edge = 0; edge < network.edges; edge += 1) {
        const at = edge * 4;
        if (far[edge] !== pass || box[at] > seen.right || box[at + 1] > seen.bottom || box[at + 2] < seen.left || box[at + 3] < seen.top) continue;
        if (picked >= 0 && (source[edge] === picked || target[edge] === picked)) continue;
        line(edge, curved);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
    if (picked < 0) return;
    context.strokeStyle = colours.accent;
    context.lineWidth = Math.max(1.6, 1.2 / scale);
    context.beginPath();
    for (let edge = 0; edge < network.edges; edge += 1) if (source[edge] === picked || target[edge] === picked) line(edge, curved);
    context.stroke();
  }

  function line(edge, curved) {
    let px = x[source[edge]], py = y[source[edge]] + BOX_H / 2;
    const points = bends.get(edge);
    context.moveTo(px, py);
    if (points) for (let at = 0; at < points.length; at += 2) { part(px, py, points[at], points[at + 1], curved); px = points[at]; py = points[at + 1]; }
    part(px, py, x[target[edge]], y[target[edge]] - BOX_H / 2, curved);
  }

  function part(px, py, qx, qy, curved) {
    if (!curved || Math.abs(px - qx) < 2 || qy < py) { context.lineTo(qx, qy); return; }
    const middle = (py + qy) / 2;
    context.bezierCurveTo(px, middle, qx, middle, qx, qy);
  }

  function paintNodes(inSight, scale) {
    const small = scale < 0.22;
    for (let which = 0; which < fills.length; which += 1) {
      for (const faint of [0, 1]) {
        context.beginPath();
        let any = false;
        for (const at of inSight) {
          if (group[at] !== which || (dim && dim[at] ? 1 : 0) !== faint) continue;
          any = true;
          if (small) context.rect(x[at] - BOX_W / 2, y[at] - BOX_H / 2, BOX_W, BOX_H);
          else context.roundRect(x[at] - BOX_W / 2, y[at] - BOX_H / 2, BOX_W, BOX_H, network.isNode(network.drawn[at]) ? 6 : BOX_H / 2);
        }
        if (!any) continue;
        context.globalAlpha = faint ? 0.22 : 1;
        context.fillStyle = scale < 0.12 ? fills[which].edge : fills[which].back; // pale boxes of a few pixels are nothing
        context.fill();
        if (scale > 0.12) {
          context.lineWidth = 1;
          context.strokeStyle = fills[which].edge;
          context.stroke();
        }
        context.globalAlpha = 1;
      }
    }
    if (scale >= 0.38) for (const at of inSight) label(at, scale);
    for (const [at, colour] of [[hover, colours.soft], [picked, colours.accent]]) {
      if (at < 0) continue;
      context.strokeStyle = colour;
      context.lineWidth = Math.max(2.5, 2.5 / scale);
      context.beginPath();
      const room = Math.max(2, 4 / scale);
      context.rect(x[at] - BOX_W / 2 - room, y[at] - BOX_H / 2 - room, BOX_W + 2 * room, BOX_H + 2 * room);
      context.stroke();
    }
  }

  const fitted = new Map();
  function label(at, scale) {
    const node = network.drawn[at];
    context.globalAlpha = dim && dim[at] ? 0.35 : 1;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = fills[group[at]].ink;
    const isNode = network.isNode(node), detailed = scale >= 0.75 && isNode;
    context.font = "600 12px system-ui, sans-serif";
    context.fillText(fit(isNode ? network.op(node).split("::").pop() : network.label(node), BOX_W - 14), x[at], detailed ? y[at] - 7 : y[at]);
    if (detailed) {
      context.font = "10px system-ui, sans-serif";
      context.globalAlpha *= 0.75;
      context.fillText(fit(network.label(node), BOX_W - 14, true), x[at], y[at] + 8);
    }
    context.globalAlpha = 1;
  }

  // A text that is no wider than that, with its beginning or, for paths, its middle left out; kept, as measuring is slow.
  function fit(text, width, path) {
    const key = (path ? "1" : "0") + text;
    let found = fitted.get(key);
    if (found !== undefined) return found;
    found = Frame.shown(text, 200);
    if (context.measureText(found).width > width) {
      let low = 1, high = found.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(cut(found, middle, path)).width <= width) low = middle; else high = middle - 1;
      }
      found = cut(found, low, path);
    }
    if (fitted.size > 30000) fitted.clear();
    fitted.set(key, found);
    return found;
  }
  function cut(text, length, path) { return path ? "…" + text.slice(text.length - length) : text.slice(0, length) + "…"; }

  // The node at a place of the network, or -1.
  function nodeAt(px, py, reach) {
    let best = -1, nearest = Infinity;
    for (const at of nodesIn({ left: px - BOX_W, top: py - BOX_H - reach, right: px + BOX_W, bottom: py + BOX_H + reach })) {
      const dx = Math.max(0, Math.abs(x[at] - px) - BOX_W / 2), dy = Math.max(0, Math.abs(y[at] - py) - BOX_H / 2);
      const distance = Math.hypot(dx, dy);
      if (distance <= reach && distance < nearest) { best = at; nearest = distance; }
    }
    return best;
  }

  return {
    bounds, paint, nodeAt,
    // fills: {back, edge, ink} for each group; of: the group of each drawn node.
    colour(newFills, of) { fills = newFills; group = of; },
    dim(mask) { dim = mask; },
    pick(at) { picked = at; },
    hover(at) { hover = at; },
    theme() { colours = null; },
  };
}
