"use strict";

// The grid of a matrix: models down, variants across, in each cell the status with the figure that the reader chose.
const Grid = (() => {
  const element = Frame.element;
  const SHOWN = {
    status: Figures.words,
    error: (task) => Frame.number(Figures.error(task), 2) || "–",
    "share of tolerance": (task) => Figures.share(Figures.used(task)) || "–",
    "engine size": (task) => Frame.bytes(Figures.size(task)) || "–",
    latency: (task) => (Figures.latency(task) === null ? "–" : Figures.milliseconds(Figures.latency(task)) + " ms"),
    seconds: (task) => Frame.seconds(Figures.total(task)) || "–",
    warnings: (task) => String(task.warnings.length),
  };

  // pick(task): called for a cell that is chosen. Gives {element, show(tasks)}.
  function make(axes, pick) {
    let tasks = [], figure = "status";
    const select = element("select", { "aria-label": "figure in the cells", onchange: () => { figure = select.value; draw(); } },
      Object.keys(SHOWN).map((name) => element("option", { value: name }, name)));
    const place = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "models by variant" });
    const made = element("div", { class: "table grid" }, element("div", { class: "tools" }, element("label", {}, "show", select)), place);

    function draw() {
      const key = (task) => JSON.stringify(axes.map((axis) => task.variant[axis] ?? ""));
      const columns = [...new Set(tasks.map(key))].map((text) => JSON.parse(text)).sort(compare);
      const rows = new Map();
      for (const task of tasks) {
        if (!rows.has(task.model)) rows.set(task.model, new Map());
        rows.get(task.model).set(key(task), task);
      }
      const keys = columns.map((one) => JSON.stringify(one));
      const body = [...rows].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).map(([model, of]) =>
        element("tr", {}, element("th", { scope: "row" }, Frame.shown(model, 60)), keys.map((one) => cell(of.get(one)))));
      place.replaceChildren(element("table", { "aria-label": "models by variant" },
        element("thead", {}, axes.map((axis, level) => element("tr", {}, element("th", { scope: "row" }, Frame.shown(axis, 40)), heads(columns, level)))),
        element("tbody", {}, body)));
    }

    // One head over neighbours that share this axis's value and all above it.
    function heads(columns, level) {
      const made = [];
      for (let at = 0; at < columns.length;) {
        let end = at + 1;
        while (end < columns.length && columns[end].slice(0, level + 1).every((one, i) => one === columns[at][i])) end += 1;
        made.push(element("th", { scope: end - at > 1 ? "colgroup" : "col", colspan: end - at }, Frame.shown(columns[at][level] || "–", 40)));
        at = end;
      }
      return made;
    }

    function cell(task) {
      if (!task) return element("td", { class: "soft", title: "not in the zoo, or not in the filter" }, "");
      const kind = Figures.kind(task);
      const text = SHOWN[figure](task);
      const said = figure === "status" ? [text] : [text, element("span", { class: "word" }, Figures.words(task))];
      return element("td", { class: "cell" }, element("button", { type: "button", class: "badge " + kind,
        "aria-label": Frame.shown(task.name) + ": " + Figures.words(task) + (figure === "status" ? "" : ", " + figure + " " + text),
        onclick: () => pick(task) }, said));
    }

    return { element: made, show(next) { tasks = next; draw(); } };
  }

  function compare(one, other) {
    for (let at = 0; at < one.length; at += 1) {
      const order = one[at].localeCompare(other[at], "en", { numeric: true });
      if (order) return order;
    }
    return 0;
  }

  return { make };
})();
