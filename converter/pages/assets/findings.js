"use strict";

// What was done to the graph and why, where the time goes, and which nodes are in which type; then the page is whole.
(() => {
  const { data, element } = Frame;
  const { network, fill } = Conversion;

  function names(list, count, panel) {
    const shown = list.map((name, at) => [at ? ", " : "", nodeLink(name, panel)]);
    const more = count > list.length ? " and " + (count - list.length).toLocaleString("en") + " more" : "";
    if (list.length <= 3) return element("span", {}, shown, more);
    const rest = element("span");
    const details = element("details", { class: "inline" }, element("summary", {}, count.toLocaleString("en") + " nodes"), rest);
    details.addEventListener("toggle", () => { if (!rest.firstChild) rest.append(...shown.flat(), more); }, { once: true });
    return details;
  }

  let byName = null;
  function nodeLink(name, panel) {
    if (network && !byName) {
      byName = new Map(Object.entries(data.stands || {}));
      for (let node = 0; node < network.count; node += 1) if (network.isNode(node) && network.name(node)) byName.set(network.name(node), node);
    }
    const node = network ? byName.get(name) : undefined;
    if (node === undefined || !panel) return element("span", { class: "code" }, Frame.shown(name, 90));
    return element("button", { type: "button", class: "plain code", onclick: () => panel.go(node) },
      Frame.shown(name, 90));
  }

  function work(panel) {
    const parts = [];
    if (data.work.length) {
      parts.push(Table.make({ label: "rewrites", rows: data.work, search: data.work.length > 10, empty: "nothing", columns: [
        { title: "rule", value: (row) => row.rule, cell: (row) => element("div", { class: "rule" }, element("b", {}, row.rule),
          row.rule.split(", ").map((name) => data.rules[name]).filter(Boolean).map((text) => element("div", { class: "soft" }, text))) },
        { title: "change", value: (row) => row.what, cell: (row) => [Frame.shown(row.what, 1200), row.notes.map((note) => element("div", { class: "soft" }, Frame.shown(note, 800))),
          row.numerics.map((note) => element("div", { class: "fair-text" }, Frame.shown(note, 800)))].flat() },
        { title: "operators", value: (row) => Object.keys(row.ops).join(", "),
          cell: (row) => Object.entries(row.ops).map(([op, count]) => Frame.shown(op, 80) + (row.count > 1 ? " × " + count : "")).join(", ") },
        { title: "nodes", value: (row) => row.count, cell: (row) => names(row.nodes, row.count, panel) }],
      }).element);
    }
    for (const mended of data.mended) {
      parts.push(element("div", { class: "note fair" }, element("p", {}, element("b", {}, mended.mitigation), ": ", mended.does),
        element("p", { class: "soft" }, "TensorRT refused: " + Frame.shown(mended.said, 600)), names(mended.nodes.map((one) => one[0]), mended.nodes.length, panel)));
    }
    for (const frozen of data.frozen) {
      parts.push(element("p", {}, "Input ", element("code", {}, Frame.shown(frozen.input)), " is frozen to " + Frame.shown(frozen.value, 300) + ": the engine is valid only for this value."));
    }
    for (const io of data.io_types) {
      parts.push(element("p", {}, element("code", {}, Frame.shown(io.name)), ` is ${io.after} in the engine, ${io.before} in the model.`));
    }
    if (data.declined.length) {
      parts.push(element("h3", {}, "Declined"), Table.make({ label: "nodes that a rule declined", rows: data.declined, search: data.declined.length > 10, columns: [
        { title: "node", value: (row) => row.node, cell: (row) => nodeLink(row.node, panel) }, { title: "operator", value: (row) => row.op_type },
        { title: "rule", value: (row) => row.pass_name }, { title: "why", value: (row) => row.refusal.reason },
        { title: "fix", value: (row) => row.refusal.fix }] }).element);
    }
    if (parts.length) fill("work", parts);
    else if (network && network.drawn.some((node) => network.route(node))) fill("work", element("p", { class: "soft" }, "Nothing: TensorRT takes every node as it is."));
  }

  function time(panel) {
    const bench = data.bench;
    if (!bench) return;
    const parts = [];
    const stages = [["latency", "latency_ms"], ["enqueue", "enqueue_ms"], ["H2D", "h2d_ms"], ["GPU compute", "compute_ms"], ["D2H", "d2h_ms"], ["response", "response_ms"]];
    for (const run of bench.runs) {
      const shapes = Object.entries(run.shapes).map(([name, dims]) => Frame.shown(name, 60) + " " + (dims.join("×") || "scalar")).join(", ");
      parts.push(element("h3", {}, run.point + (shapes ? ": " + shapes : "") + (run.cuda_graph ? ", with CUDA graph" : ", without CUDA graph")
        + (run.streams > 1 ? ", " + run.streams + " streams" : "")));
      if (run.unavailable) { parts.push(element("p", { class: "soft" }, "Not measured: " + run.unavailable)); continue; }
      const columns = ["min", "median", "mean", "p90", "p99", "max"];
      parts.push(Table.make({ label: "times of a run", rows: stages.filter(([, key]) => run[key]), columns: [{ title: "ms", value: (row) => row[0] },
        ...columns.map((name) => ({ title: name, number: true, value: (row) => run[row[1]][name], cell: (row) => Frame.number(run[row[1]][name], 4) }))] }).element,
      element("p", { class: "soft" }, Frame.number(run.throughput, 5) + " inferences a second; " + run.queries + " inferences in " + Frame.number(run.wall_s) + " s."),
      (run.remarks || []).map((remark) => element("p", { class: "soft" }, remark)));
    }
    if (bench.layers) parts.push(...layers(bench.layers, panel));
    if (bench.against && bench.against.length) {
      parts.push(element("h3", {}, "Other runtimes"), Table.make({ label: "other runtimes", rows: bench.against, columns: [
        { title: "name", value: (row) => row.name }, { title: "what", value: (row) => row.unavailable ? "not available: " + row.unavailable : row.what },
        { title: "response ms", number: true, value: (row) => row.response_ms ? row.response_ms.median : null, cell: (row) => (row.response_ms ? Frame.number(row.response_ms.median, 4) : "") },
        { title: "ratio to the engine", number: true, value: (row) => row.ratio ?? null, cell: (row) => (row.ratio ? Frame.number(row.ratio) : "") },
        { title: "outputs", value: (row) => (row.status || "") }] }).element);
    }
    fill("time", parts);
  }

  function layers(profile, panel) {
    const share = (part) => (100 * part).toFixed(1) + "%";
    const plugins = profile.by_plugin.map((row) => ({ name: Frame.shown(row.plugin, 60), value: row.share, kind: "plugin",
      text: share(row.share) + ", " + Frame.number(row.ms) + " ms, " + row.layers + " layer" + (row.layers === 1 ? "" : "s") }));
    const types = profile.by_type.slice(0, 15).map((row) => ({ name: Frame.shown(row.type, 60), value: row.share,
      text: share(row.share) + ", " + Frame.number(row.ms) + " ms, " + row.layers + " layer" + (row.layers === 1 ? "" : "s") }));
    return [element("h3", {}, "Layers: " + Frame.number(profile.sum_ms) + " ms, median of " + profile.inferences + " profiled inferences"),
      plugins.length ? [element("h4", {}, "Plugins"), Charts.bars(plugins, "share of each plugin")] : element("p", { class: "soft" }, "No plugin has a layer."),
      element("h4", {}, "Operators"), Charts.bars(types, "share of each operator"),
      Table.make({ label: "layers", rows: profile.layers, search: true, order: [2, true], columns: [
        { title: "layer", value: (row) => row.layer },
        { title: "operators", value: (row) => row.type, cell: (row) => [Frame.shown(row.type, 80), row.plugin ? [" ", Frame.badge("plugin", "route-plugin")] : ""].flat() },
        { title: "ms", number: true, value: (row) => row.ms, cell: (row) => Frame.number(row.ms, 4) },
        { title: "share", number: true, value: (row) => row.share, cell: (row) => share(row.share) },
        { title: "nodes", value: (row) => row.nodes.join(" "), cell: (row) => names(row.nodes, row.nodes.length, panel) }] }).element].flat();
  }

  function precision(panel) {
    const counts = new Map();
    for (let node = 0; network && node < network.count; node += 1) {
      if (network.isNode(node) && network.dtype(node)) counts.set(network.dtype(node), (counts.get(network.dtype(node)) || 0) + 1);
    }
    const known = data.precision;
    if (!known && counts.size < 2) return;
    const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const rows = [...counts].sort((one, other) => other[1] - one[1]).map(([type, count]) => ({ name: type, value: count, text: count.toLocaleString("en") + " nodes, " + (100 * count / all).toFixed(1) + "%" }));
    const parts = [];
    if (known) {
      parts.push(element("p", {}, known.reduced.toLocaleString("en") + " nodes in " + known.precision + (known.kept.length ? ", " + known.kept.length.toLocaleString("en") + " kept in float32" : "")
        + (known.beside ? ", " + known.beside.toLocaleString("en") + " between them" : "") + (known.casts ? ", " + known.casts.toLocaleString("en") + " Casts inserted" : "") + "."));
    }
    if (rows.length) parts.push(Charts.bars(rows, "nodes by the type of what they make"), element("p", { class: "soft" }, "By the type of what a node makes in the engine's graph; the network can be coloured by it."));
    if (known && known.kept.length) {
      parts.push(element("h3", {}, "Kept in float32"), Table.make({ label: "nodes kept in float32", rows: known.kept, search: true, columns: [
        { title: "node", value: (row) => row.node, cell: (row) => nodeLink(row.node, panel) }, { title: "operator", value: (row) => row.op_type, choices: true },
        { title: "why", value: (row) => row.reason }] }).element);
    }
    fill("precision", parts);
  }

  function located(panel) {
    const found = data.located;
    if (!found) return;
    const list = (found.nodes || []).map((node) => element("div", { class: "note bad" },
      element("p", {}, element("b", {}, nodeLink(node.name, panel)), " (" + Frame.shown(node.op_type) + ")" + (node.original ? ", for " + Frame.shown(node.original, 300) : "")),
      element("dl", { class: "facts" }, [...node.inputs.map((one) => ["input", one]), ...node.outputs.map((one) => ["output", one])].map(([word, one]) => [
        element("dt", {}, word), element("dd", {}, element("span", { class: "code" }, Frame.shown(one.name, 80)), " ", one.dtype + " " + (one.shape.join("×") || "scalar"),
          one.error === null || one.error === undefined ? "" : ", error " + Frame.number(one.error), one.reason ? ": " + one.reason : "")]))));
    fill("depth", element("p", {}, Frame.shown(found.sentence, 600), found.folder ? [" Saved in ", element("code", {}, Frame.shown(found.folder)), "."] : ""),
      list, (found.advice || []).map((text) => element("p", {}, Frame.shown(text, 800))));
  }

  Conversion.summary();
  Conversion.problems();
  Conversion.outputs();
  const panel = Conversion.picture();
  work(panel);
  located(panel);
  Conversion.depth(panel);
  time(panel);
  precision(panel);
  Conversion.nodes(panel);
  Conversion.about();
  Conversion.finish();
})();
