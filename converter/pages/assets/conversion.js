"use strict";

// The page of one conversion: the summary, problems, outputs, the network, the nodes, versions and files.
const Conversion = (() => {
  const { data, element } = Frame;
  const network = readNetwork(data.network, data.errors, data.times);

  // A section appears when something is put into it; the links of those that stay empty go.
  function fill(id, ...content) {
    const section = document.getElementById(id);
    section.hidden = false;
    section.append(...content.flat(3).filter(Boolean).map((one) => (one instanceof Node ? one : document.createTextNode(one))));
  }
  function finish() {
    for (const section of document.querySelectorAll("main > section[hidden]")) {
      document.querySelector('.bar nav a[href="#' + section.id + '"]')?.remove();
    }
  }

  function summary() {
    const { word, level, reason, next } = data.status;
    fill("summary",
      element("h1", {}, Frame.shown(data.title, 200), " ", element("span", { class: "badge verdict " + level }, word)),
      reason ? element("p", { class: "reason" }, reason) : null,
      next ? element("p", { class: "reason" }, element("b", {}, "next: "), Frame.shown(next, 2000)) : null,
      data.cards.length ? element("div", { class: "cards" }, data.cards.map(([value, what]) => element("div", { class: "card" },
        element("b", {}, typeof value === "number" ? value.toLocaleString("en") : value), element("span", {}, what)))) : null,
      data.command.length ? element("pre", { class: "command", "aria-label": "the command line" }, Frame.commandLine(data.command)) : null);
    document.body.dataset.kind = data.kind;
  }

  function problems() {
    const notes = data.problems.map((problem) => element("div", { class: "note bad" },
      element("p", {}, element("b", {}, Frame.shown(problem.what, 2000))),
      element("dl", { class: "facts" },
        [["where", problem.where], ["expected", problem.expected], ["fix", problem.fix]].filter(([, text]) => text).map(([title, text]) => [
          element("dt", {}, title), element("dd", { class: title === "expected" ? "" : "code" }, Frame.shown(text, 4000))]))));
    const warnings = data.warnings.map((warning) => element("div", { class: "note fair" }, Frame.shown(warning, 4000)));
    const most = 12;
    const list = [...notes, ...warnings];
    if (!list.length) return;
    document.getElementById("problems-title").textContent = !notes.length ? "Warnings" : warnings.length ? "Problems and warnings" : "Problems";
    const link = document.querySelector('.bar nav a[href="#problems"]');
    if (link) link.textContent = notes.length ? "Problems" : "Warnings";
    fill("problems", list.slice(0, most), list.length > most
      ? element("details", {}, element("summary", {}, "and " + (list.length - most) + " more"), list.slice(most)) : null);
  }

  function outputs() {
    const verdict = data.verdict;
    if (!verdict) return;
    const several = verdict.comparisons.some((one) => one.at);
    const column = (title, value, more) => ({ title, value, ...more });
    const figures = [["relative", "relative"], ["max", "max"], ["mean", "mean"], ["p99", "p99"]].map(([title, key]) =>
      column(title, (row) => row[key], { number: true, cell: (row) => (row[key] === null ? "∞" : Frame.number(row[key])) }));
    const status = (row) => (row.agrees && verdict.outputs[row.output] !== "disagree" ? verdict.outputs[row.output] : row.agrees ? "agree" : "disagree");
    const table = Table.make({ label: "outputs", rows: verdict.comparisons, search: verdict.comparisons.length > 8, columns: [
      column("output", (row) => row.output), ...(several ? [column("inputs", (row) => row.at)] : []),
      column("shape", (row) => row.dtype + " " + (row.shape.join("×") || "scalar")), ...figures,
      column("cosine", (row) => row.cosine, { number: true, cell: (row) => Number(row.cosine).toFixed(6) }),
      column("worst at", (row) => row.worst.join(","), { cell: (row) => (row.worst.length ? row.worst.join(",") + ": " + Frame.number(row.actual, 5)
        + ", expected " + Frame.number(row.expected, 5) : "") }),
      column("verdict", status, { cell: (row) => [Frame.badge(status(row), { agree: verdict.basis && verdict.basis.length ? "fair" : "good", disagree: "bad" }[status(row)] || "fair"),
        " ", element("span", { class: "soft" }, row.reason)] }),
    ] });
    const ran = { graphs: "the graph that the engine is built from was run in onnxruntime, against the original", original: "the original was run", nothing: "neither graph was run" };
    const told = [verdict.engine_run ? "The engine itself was run." : "The engine itself was not run" + (verdict.not_run ? ": " + verdict.not_run : "") + "; " + (ran[verdict.ran] || verdict.ran) + ".",
      "Inputs: " + verdict.inputs + ".", verdict.precision ? "Judged as " + verdict.precision + "." : "", ...data.cost, ...verdict.meanings, ...verdict.references];
    fill("outputs", verdict.comparisons.length ? table.element : null, Frame.notCompared(verdict), told.filter(Boolean).map((text) => element("p", { class: "soft" }, Frame.shown(text, 2000))));
  }

  function picture() {
    if (!network) return null;
    const panel = networkPanel(network, data.rules, data.kind === "bench" ? "time" : data.kind === "convert" ? "route" : "error");
    fill("network", panel.element);
    return panel;
  }

  function depth(panel) {
    const list = data.errors;
    if (!list.length) return;
    const at = (node) => (node >= 0 && network && network.place[network.standIn(node)] >= 0 ? network.depth[network.place[network.standIn(node)]] : null);
    const placed = list.map(([node, value, error, reason]) => ({ node, value, error, reason, x: at(node) })).filter((one) => one.x !== null);
    const points = placed.map((one) => ({ x: one.x, y: one.error, wrong: Boolean(one.reason),
      label: () => Frame.shown(one.value, 120) + "\nerror " + (one.error === null ? "no number" : Frame.number(one.error)) + (one.reason ? "\n" + one.reason : ""),
      pick: panel ? () => panel.go(one.node) : null }));
    const wrong = placed.filter((one) => one.reason);
    fill("depth", element("p", { class: "soft" }, "Relative error of " + list.length.toLocaleString("en") + " values between nodes, by the number of nodes before them"
      + (wrong.length ? "; " + wrong.length.toLocaleString("en") + " disagree." : ".")), Charts.depth(points, { label: "relative errors by depth", unit: "depth: nodes on the longest way from an input" }),
    wrong.length ? Table.make({ label: "values that disagree", rows: wrong, search: wrong.length > 12, columns: [
      { title: "value", value: (row) => row.value }, { title: "depth", number: true, value: (row) => row.x },
      { title: "error", number: true, value: (row) => row.error, cell: (row) => (row.error === null ? "no number" : Frame.number(row.error)) },
      { title: "why", value: (row) => row.reason }], pick: panel ? (row) => panel.go(row.node) : null }).element : null);
  }

  function nodes(panel) {
    if (!network) return;
    const rows = [];
    for (let node = 0; node < network.count; node += 1) if (network.isNode(node)) rows.push(node);
    const objects = rows.map((node) => ({ node }));
    const has = (values) => [...values].some((value) => !Number.isNaN(value));
    const number = (title, values, unit) => ({ title, number: true, value: (row) => (Number.isNaN(values[row.node]) ? null : values[row.node]),
      cell: (row) => (Number.isNaN(values[row.node]) ? "" : Frame.number(values[row.node], 3) + unit) });
    const any = (read) => rows.some((node) => read(node));
    const table = Table.make({ label: "nodes", rows: objects, search: true, columns: [
      { title: "node", value: (row) => network.label(row.node) },
      { title: "operator", value: (row) => network.op(row.node), choices: true },
      ...(any(network.route) ? [{ title: "route", value: (row) => network.route(row.node), choices: true,
        cell: (row) => Frame.badge(network.route(row.node) || "–", "route-" + network.route(row.node).replace(/\s/g, "-")) }] : []),
      ...(any(network.rule) ? [{ title: "rule", value: (row) => network.rule(row.node), choices: true }] : []),
      ...(any(network.dtype) ? [{ title: "type", value: (row) => network.dtype(row.node), choices: true }] : []),
      ...(has(network.error) ? [number("error", network.error, "")] : []),
      ...(has(network.time) ? [number("time", network.time, " ms")] : []),
      { title: "outputs", value: (row) => network.outputs(row.node).filter((value) => value >= 0).map((value) => network.valueType(value)).join("; ") },
    ], pick: (row) => panel.go(row.node) });
    fill("nodes", table.element);
  }

  function about() {
    const pairs = (object) => Object.entries(object || {}).map(([name, value]) => [element("dt", {}, Frame.shown(name)), element("dd", {}, value)]);
    const stages = Object.fromEntries(Object.entries(data.seconds || {}).map(([stage, seconds]) => [stage, Frame.seconds(seconds)]));
    const parts = [["Versions", data.versions], ["SHA-256", Object.fromEntries(Object.entries(data.files).map(([name, hash]) => [name, element("span", { class: "code" }, hash)]))],
      ["Stages", stages]].filter(([, object]) => Object.keys(object || {}).length);
    fill("about", element("div", { class: "columns" }, parts.map(([title, object]) => element("div", {}, element("h3", {}, title), element("dl", { class: "facts" }, pairs(object))))));
  }

  return { network, fill, finish, summary, problems, outputs, picture, depth, nodes, about };
})();
