"use strict";

// Charts drawn as SVG: points along the depth of a network on a logarithmic scale, and bars.
const Charts = (() => {
  const SPACE = "http://www.w3.org/2000/svg";

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value); else made.setAttribute(name, String(value));
    }
    for (const child of children.flat()) if (child) made.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
    return made;
  }

  // points: {x, y, wrong, label(), pick}; y on a logarithmic scale, 0 and less at the lower edge; null: no number, at the upper.
  // joined: whether the worst of each place is a line.
  function depth(all, { label, unit, joined = true }) {
    const W = 1200, H = 290, LEFT = 56, RIGHT = 12, TOP = 14, BOTTOM = 46;
    const points = fewer(all, W - LEFT - RIGHT);
    const known = points.map((point) => point.y).filter((value) => typeof value === "number" && value > 0);
    const low = known.length ? Math.floor(Math.log10(Math.min(...known)) - 0.05) : -6;
    const high = Math.max(known.length ? Math.ceil(Math.log10(Math.max(...known)) + 0.05) : 0, low + 1);
    const most = Math.max(1, ...points.map((point) => point.x));
    const across = (value) => LEFT + (W - LEFT - RIGHT) * value / most;
    const up = (value) => {
      if (value === null || value === undefined) return TOP;
      if (!(value > 0)) return H - BOTTOM;
      return TOP + (H - TOP - BOTTOM) * (high - Math.log10(value)) / (high - low);
    };
    const lines = [];
    const step = Math.max(1, Math.ceil((high - low) / 8));
    for (let power = low; power <= high; power += step) {
      const at = up(10 ** power);
      lines.push(svg("line", { x1: LEFT, x2: W - RIGHT, y1: at, y2: at, class: "grid" }),
        svg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end", class: "tick" }, "1e" + power));
    }
    for (let part = 0; part <= 4; part += 1) {
      const value = Math.round(most * part / 4);
      lines.push(svg("text", { x: across(value), y: H - 28, "text-anchor": part === 4 ? "end" : "middle", class: "tick" }, value.toLocaleString("en")));
    }
    lines.push(svg("text", { x: (LEFT + W) / 2, y: H - 9, "text-anchor": "middle", class: "tick" }, unit));
    const dots = points.map((point) => svg("circle", { cx: across(point.x).toFixed(1), cy: up(point.y).toFixed(1), r: point.wrong ? 4.5 : 3,
      class: point.wrong ? "dot wrong" : "dot", ...(point.pick ? { onclick: point.pick } : {}) }, svg("title", {}, point.label())));
    // the worst of each depth, as a line
    const worst = new Map();
    for (const point of points) if (typeof point.y === "number") worst.set(point.x, Math.max(worst.get(point.x) ?? 0, point.y));
    const way = [...worst].sort((one, other) => one[0] - other[0]).map(([x, y], at) => (at ? "L" : "M") + across(x).toFixed(1) + " " + up(y).toFixed(1)).join("");
    return svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "chart", role: "img", "aria-label": label },
      lines, joined && way ? svg("path", { d: way, class: "way" }) : null, dots);
  }

  // Of so many points that they cover each other the worst of each column of pixels, and all that are wrong.
  function fewer(points, columns) {
    if (points.length <= 1500) return points;
    const most = Math.max(1, ...points.map((point) => point.x)), worst = new Map();
    for (const point of points) {
      const column = Math.floor(columns * point.x / most), known = worst.get(column);
      if (!known || (point.y ?? Infinity) > (known.y ?? Infinity)) worst.set(column, point);
    }
    const kept = new Set(worst.values());
    return points.filter((point) => kept.has(point) || point.wrong);
  }

  // rows: {name, value, text, kind, title}; a bar is as long as its share of the largest.
  function bars(rows, label) {
    const most = Math.max(...rows.map((row) => row.value), 1e-30);
    return Frame.element("div", { class: "bars", role: "list", "aria-label": label }, rows.map((row) => {
      const bar = Frame.element("span", { class: "bar-fill " + (row.kind || "") });
      bar.style.width = Math.max(0.3, 100 * row.value / most) + "%";
      return Frame.element("div", { role: "listitem", class: "bar-row", title: row.title || "" },
        Frame.element("span", { class: "bar-name" }, row.name), Frame.element("span", { class: "bar-track" }, bar),
        Frame.element("span", { class: "bar-text" }, row.text));
    }));
  }

  return { depth, bars };
})();
