"use strict";

// The network with its tools: search while one types, colours by what is asked for, a legend that picks, and the details of
// the node that was clicked.
function networkPanel(network, rules, first) {
  const element = Frame.element;
  const MOST_HITS = 60;
  const view = networkView(network, { onPick: (node) => show(node) });
  const details = element("aside", { class: "details", "aria-live": "polite", "aria-label": "the chosen node" });
  let from = null; // what has the focus again when the details close
  const legend = element("div", { class: "legend", role: "group", "aria-label": "legend" });
  const field = element("input", { type: "search", placeholder: "search: name, operator, route, rule", "aria-label": "search the network" });
  const count = element("span", { class: "count", "aria-live": "polite" });
  const results = element("ol", { class: "hits", hidden: true });
  let hits = [], current = -1, words = [], chosen = null;

  // What is searched: one text for each node, made once.
  let texts = null;
  function searched() {
    if (!texts) {
      texts = new Array(network.count);
      for (let node = 0; node < network.count; node += 1) {
        texts[node] = [network.name(node), network.op(node), network.route(node), network.rule(node), network.role(node),
          network.dtype(node)].join("\n").toLowerCase();
      }
    }
    return texts;
  }

  function search(text) {
    words = text.toLowerCase().split(/\s+/).filter(Boolean);
    hits = [];
    current = -1;
    if (words.length) {
      const all = searched();
      for (let node = 0; node < network.count; node += 1) {
        let found = true;
        for (const word of words) if (!all[node].includes(word)) { found = false; break; }
        if (found) hits.push(node);
      }
    }
    count.textContent = words.length ? hits.length.toLocaleString("en") + (hits.length === 1 ? " hit" : " hits") : "";
    results.hidden = !hits.length;
    results.replaceChildren(...hits.slice(0, MOST_HITS).map((node, at) => element("li", {},
      element("button", { type: "button", onclick: () => go(at) },
        element("span", { class: "code" }, Frame.shown(network.label(node), 70)), " ",
        element("span", { class: "soft" }, Frame.shown(network.op(node) || network.role(node), 40))))),
    ...(hits.length > MOST_HITS ? [element("li", { class: "soft" }, "and " + (hits.length - MOST_HITS).toLocaleString("en") + " more")] : []));
    dim();
    return hits.length;
  }

  function go(at) {
    if (!hits.length) return;
    current = (at + hits.length) % hits.length;
    count.textContent = (current + 1).toLocaleString("en") + " of " + hits.length.toLocaleString("en");
    [...results.querySelectorAll("button")].forEach((button, index) => button.setAttribute("aria-current", index === current ? "true" : "false"));
    view.show(hits[current]);
    show(hits[current]);
  }
  field.addEventListener("input", () => search(field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? current - 1 : current + 1); }
    if (event.key === "Escape") { field.value = ""; search(""); }
  });

  function dim() {
    if (!words.length && !chosen) { view.painter.dim(null); view.ask(); return; }
    const mask = new Uint8Array(network.drawn.length);
    const wanted = words.length ? new Set(hits.map((node) => network.standIn(node))) : null;
    network.drawn.forEach((node, at) => {
      if (wanted && !wanted.has(node)) mask[at] = 1;
      if (chosen && !chosen(node)) mask[at] = 1;
    });
    view.painter.dim(mask);
    view.ask();
  }

  // Colours: by a word of each node, or by a number on a scale.
  const modes = NetworkColours.modes(network);
  const menu = element("select", { "aria-label": "colour by" }, ...modes.map((mode, at) => element("option", { value: at }, mode.title)));
  menu.addEventListener("change", () => colour());
  function colour() {
    const mode = modes[menu.selectedIndex] || modes[0];
    const groups = mode.groups();
    const of = new Uint8Array(network.drawn.length);
    const counts = new Array(groups.length).fill(0);
    network.drawn.forEach((node, at) => { of[at] = mode.group(node); });
    for (let node = 0; node < network.count; node += 1) if (network.isNode(node)) counts[mode.group(node)] += 1;
    view.painter.colour(groups.map((group) => NetworkColours.resolved(group.colour)), of);
    chosen = null;
    legend.replaceChildren(...groups.map((group, at) => {
      if (!counts[at] || group.hidden) return null;
      const button = element("button", { type: "button", "aria-pressed": "false", title: group.title || "" },
        swatch(group.colour), group.name, " ", element("span", { class: "soft" }, counts[at].toLocaleString("en")));
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        for (const other of legend.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(on));
        chosen = on ? (node) => mode.group(node) === at : null;
        dim();
      });
      return button;
    }).filter(Boolean));
    dim();
  }
  function swatch(name) { return element("i", { class: "swatch colour-" + name, "aria-hidden": "true" }); }
  Frame.onTheme(() => colour());

  function show(node) {
    details.hidden = node < 0;
    if (node < 0) return;
    const route = network.route(node), rule = network.rule(node), error = network.error[node], time = network.time[node];
    const fact = (title, ...content) => content.some((one) => one !== "" && one !== null && one !== undefined && !(Array.isArray(one) && !one.length))
      ? [element("dt", {}, title), element("dd", {}, ...content)] : [];
    const outer = network.inside(node);
    details.replaceChildren(
      element("button", { type: "button", class: "close", title: "close", "aria-label": "close", onclick: close }, "×"),
      element("h3", { class: "code", tabindex: "-1" }, Frame.shown(network.label(node), 400)),
      element("p", {}, network.isNode(node) ? element("b", {}, Frame.shown(network.op(node))) : network.role(node) + " of the model", " ",
        route ? Frame.badge(route, "route-" + route.replace(/\s/g, "-")) : null),
      element("dl", { class: "facts" },
        fact("route", Frame.shown(network.how(node), 600)),
        rule.split(", ").filter(Boolean).map((name) => fact("rule", element("b", {}, name), rules[name] ? ": " + rules[name] : "")),
        fact("type", network.dtype(node)),
        fact("kept", network.kept(node) ? "in float32: " + network.kept(node) : ""),
        fact("error", (network.errorsOf.get(node) || []).map(([value, size, reason]) => element("div", {},
          size === null ? "no number" : Frame.number(size), " ", element("span", { class: "soft code" }, Frame.shown(value, 60)),
          reason ? element("div", { class: "bad-text" }, reason) : null))),
        fact("time", Number.isNaN(time) ? "" : Frame.number(time, 4) + " ms" + (network.shared.get(node)
          ? ", its share of a layer of " + network.shared.get(node) + " nodes" : "")),
        fact("attributes", Frame.shown(network.attributes(node), 1200)),
        fact("constant", Frame.shown(network.holds(node), 1200)),
        fact("inside", outer >= 0 ? link(outer) : "", outer >= 0 ? " " + network.where(node) : ""),
        fact("inputs", network.inputs(node).map((value) => port(value, network.makers[value] ?? -1))),
        fact("outputs", network.outputs(node).map((value) => port(value, -1, network.readers.get(value))))),
    );
    details.scrollTop = 0;
  }
  function close() {
    view.select(-1);
    show(-1);
    (from?.isConnected && from !== document.body ? from : view.canvas).focus();
  }
  details.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });

  function port(value, maker, readers) {
    if (value < 0) return element("div", { class: "soft" }, "(left out)");
    return element("div", {}, maker >= 0 ? link(maker, network.valueName(value)) : element("span", { class: "code" }, Frame.shown(network.valueName(value), 80)),
      " ", element("span", { class: "soft" }, network.valueType(value), network.constant.has(value) ? " constant" : ""),
      readers ? element("div", { class: "readers soft" }, "read by ", readers.slice(0, 6).map((reader, at) => [at ? ", " : "", link(reader)]),
        readers.length > 6 ? " and " + (readers.length - 6) + " more" : "") : null);
  }
  function link(node, name) {
    return element("button", { type: "button", class: "plain code", onclick: () => { view.show(node); show(node); } },
      Frame.shown(name ?? network.label(node), 80));
  }

  const button = (text, title, action) => element("button", { type: "button", title, "aria-label": title, onclick: action }, text);
  const tools = element("div", { class: "tools screen-only" }, field, count,
    button("‹", "hit before (Shift+Enter)", () => go(current - 1)), button("›", "next hit (Enter)", () => go(current + 1)),
    element("span", { class: "gap" }), element("label", {}, "colour ", menu),
    button("−", "smaller (-)", () => view.zoom(1 / 1.4)), button("+", "larger (+)", () => view.zoom(1.4)), button("All", "show all (0)", () => view.fit()));
  details.hidden = true;
  const outer = element("div", { class: "network" }, tools, legend,
    element("div", { class: "stage" }, view.element, results, details),
    element("p", { class: "soft screen-only" }, "Drag to move. A click chooses a node, and the wheel then zooms; so does Ctrl and the wheel at once. Edges read downwards, then from column to column."));
  menu.selectedIndex = Math.max(0, modes.findIndex((mode) => mode.title === first));
  colour();
  (window.requestIdleCallback || setTimeout)(() => searched());
  // From elsewhere in the page: what is shown of the node is in sight then.
  function come(node) {
    if (!details.contains(document.activeElement)) from = document.activeElement;
    view.show(node);
    show(node);
    document.getElementById("network").scrollIntoView();
    details.querySelector("h3").focus({ preventScroll: true });
  }

  return { element: outer, view, search, show, go: come, field, hits: () => hits };
}

// What nodes are coloured by. Each mode has groups {name, colour, title}, and says of which one a node is.
const NetworkColours = (() => {
  const ROUTES = { native: ["native", "TensorRT's own importer takes it"], rewritten: ["rewritten", "rules wrote it in other operators"],
    plugin: ["plugin", "a plugin computes it"], "stock plugin": ["stock", "a plugin of TensorRT's own computes it"],
    function: ["function", "a function body in the model"], unsupported: ["unsupported", "it does not reach TensorRT"],
    gone: ["gone", "no node of the engine's graph"] };

  function byWord(title, word, known = {}) {
    return (network) => {
      const counts = new Map();
      for (let node = 0; node < network.count; node += 1) {
        if (!network.isNode(node)) continue;
        const one = word(network, node);
        counts.set(one, (counts.get(one) || 0) + 1);
      }
      const words = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one));
      if (words.length === 0 || (words.length === 1 && words[0] === "")) return null;
      const named = words.slice(0, 11), at = new Map(named.map((one, index) => [one, index + 1]));
      const groups = [{ name: "input or output", colour: "port", hidden: true },
        ...named.map((one, index) => ({ name: one || "none", colour: one === "" ? "none" : known[one] ? known[one][0] : "word-" + (index % 8),
          title: known[one] ? known[one][1] : "" })),
        { name: "other", colour: "none" }];
      return { title, groups: () => groups, group: (node) => !network.isNode(node) ? 0 : at.get(word(network, node)) ?? groups.length - 1 };
    };
  }

  // Numbers on five steps; edges: the upper ends of the first four.
  function byNumber(title, values, steps) {
    return (network) => {
      const known = [...values(network)].filter((one) => !Number.isNaN(one));
      if (!known.length) return null;
      const ends = steps(known);
      const groups = [{ name: "input or output", colour: "port", hidden: true },
        ...ends.map((end, at) => ({ name: (at ? Frame.number(ends[at - 1]) + " to " : "up to ") + Frame.number(end), colour: "heat-" + at })),
        { name: "above " + Frame.number(ends[ends.length - 1]), colour: "heat-" + ends.length }, { name: "not known", colour: "none" }];
      return { title, groups: () => groups, group(node) {
        if (!network.isNode(node)) return 0;
        const value = values(network)[node];
        if (Number.isNaN(value)) return groups.length - 1;
        let at = 0;
        while (at < ends.length && value > ends[at]) at += 1;
        return at + 1;
      } };
    };
  }

  const MODES = [
    byWord("route", (network, node) => network.route(node), ROUTES),
    byWord("type", (network, node) => network.dtype(node)),
    byWord("rule", (network, node) => network.rule(node)),
    byNumber("error", (network) => network.error, () => [1e-6, 1e-4, 1e-3, 1e-2]),
    byNumber("time", (network) => network.time, (known) => {
      const most = Math.max(...known);
      return [0.02, 0.1, 0.3, 0.6].map((part) => Number((most * part).toPrecision(2)));
    }),
    byWord("operator", (network, node) => network.op(node)),
  ];
  const plain = { title: "nothing", groups: () => [{ name: "input or output", colour: "port", hidden: true }, { name: "node", colour: "none" }],
    group: () => 1 };

  function resolved(name) {
    const probe = Frame.element("i", { class: "swatch colour-" + name });
    document.body.appendChild(probe);
    const style = getComputedStyle(probe);
    const found = { back: style.backgroundColor, edge: style.borderTopColor, ink: style.color };
    probe.remove();
    return found;
  }

  function modes(network) {
    const found = MODES.map((make) => make(network)).filter(Boolean);
    return found.length ? found : [{ ...plain, group: (node) => (network.isNode(node) ? 1 : 0) }];
  }

  return { modes, resolved };
})();
