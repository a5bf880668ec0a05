"use strict";

// The panel of one task: all that its entry says, its command line, and links to its files.
const Details = (() => {
  const element = Frame.element, shown = (text) => Frame.shown(text, 2000);

  // step(by): shows the task before or after the one that is shown. back(): what is focused when the panel closes, if that from which it was opened is there no more. Gives {element, show(task)}.
  function make(back, step) {
    let from = null;
    const close = element("button", { type: "button", "aria-label": "close the details", onclick: () => hide() }, "Close");
    const steps = [[-1, "Previous"], [1, "Next"]].map(([by, text]) => element("button", { type: "button", onclick: () => step(by) }, text));
    const title = element("h2", { tabindex: "-1", id: "details-title" });
    const body = element("div", {});
    const panel = element("aside", { class: "details", "aria-labelledby": "details-title", hidden: true },
      element("div", { class: "head" }, title, element("div", { class: "steps" }, steps, close)), body);
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

    function hide() {
      panel.hidden = true;
      history.replaceState(null, "", location.pathname + location.search);
      const place = from && from.isConnected && from !== document.body ? from : back();
      if (place) place.focus();
    }

    function show(task) {
      if (!panel.contains(document.activeElement)) from = document.activeElement;
      title.replaceChildren(element("bdi", {}, Frame.shown(task.name, 200)));
      body.replaceChildren(...sections(task).filter(Boolean));
      panel.hidden = false;
      panel.scrollTop = 0;
      history.replaceState(null, "", "#task=" + encoded(task.name));
      title.focus({ preventScroll: true });
    }

    return { element: panel, show };
  }

  function sections(task) {
    return [
      element("p", {}, Figures.status(task), " ", Figures.MEANS[task.status], pageLink(task)),
      problems(task),
      list("Warnings", task.warnings, "fair", more(task, "warnings")),
      outputs(task),
      task.bench && bench(task.bench),
      task.tune && search(task.tune),
      engine(task),
      command(task),
      files(task),
      origin(task),
    ];
  }

  function pageLink(task) {
    const link = task.page && fileLink(task, task.page, "the page of this conversion");
    return link ? [" · ", link] : [];
  }

  function problems(task) {
    if (!task.problems.length) return null;
    return section("Problems", task.problems.map((one) => element("div", { class: "note bad" },
      element("p", {}, shown(one.what)),
      facts([["where", shown(one.where)], ["expected", shown(one.expected)], ["fix", shown(one.fix)]]))), more(task, "problems"));
  }

  function list(name, texts, kind, rest) {
    return texts.length ? section(name, texts.map((text) => element("div", { class: "note " + kind }, shown(text))), rest) : null;
  }

  // What the page leaves out stands in the task's record.
  function more(task, name) {
    const count = task.left_out[name];
    return count ? element("p", { class: "soft" }, "and " + count.toLocaleString("en") + " more in record.json") : null;
  }

  function outputs(task) {
    const verdict = task.verdict;
    if (!verdict) return null;
    const rows = verdict.outputs.map((one) => element("tr", {},
      element("th", { scope: "row" }, Frame.shown(one.output, 80)), element("td", {}, Frame.shown(one.at)),
      element("td", { class: "number" }, Frame.number(one.relative, 2)), element("td", { class: "number" }, Figures.share(one.used)),
      element("td", {}, Frame.badge(one.agrees ? "agrees" : "disagrees", !one.agrees ? "bad" : verdict.basis.length ? "fair" : "good"), " ", shown(one.reason))));
    const run = verdict.engine_run ? "the engine itself was run" : "the engine itself was not run" + (verdict.not_run ? ": " + verdict.not_run : "");
    return section("Outputs",
      element("p", {}, shown(verdict.status + (verdict.basis.length ? " (" + verdict.basis.join("; ") + ")" : "") + ": " + verdict.reason)),
      verdict.advice ? element("p", {}, element("b", {}, "next: "), shown(verdict.advice)) : null,
      element("p", { class: "soft" }, shown(run + "; inputs: " + verdict.inputs)),
      Frame.notCompared(verdict),
      rows.length ? plain("outputs", ["output", "at", "error", "of tolerance", "verdict"], rows, [2, 3]) : null, more(task, "outputs"));
  }

  function bench(found) {
    const rows = found.runs.map((one) => element("tr", {},
      element("th", { scope: "row" }, one.point),
      element("td", {}, shown(Object.entries(one.shapes).map(([name, dims]) => name + " " + dims.join("×")).join(", "))),
      element("td", {}, [one.cuda_graph && "CUDA graph", one.streams > 1 && one.streams + " streams", !one.transfers && "no transfers"].filter(Boolean).join(", ")),
      element("td", { class: "number" }, Figures.milliseconds(one.latency_ms.median)), element("td", { class: "number" }, Figures.milliseconds(one.latency_ms.p90)),
      element("td", { class: "number" }, Frame.number(one.throughput, 4))));
    return section("Times on " + Frame.shown(found.gpu || "a GPU"), plain("times", ["point", "shapes", "mode", "median ms", "p90 ms", "inferences/s"], rows, [3, 4, 5]));
  }

  function search(found) {
    return section("Search", facts([["tuned", Figures.milliseconds(found.ms) + " ms, error " + Frame.number(found.error, 2)],
      ["default", found.default_ms === null ? "no engine" : Figures.milliseconds(found.default_ms) + " ms"],
      ["engines tried", Frame.number(found.tried)]]));
  }

  function engine(task) {
    const routes = Object.entries(task.routes).map(([name, count]) => count + " " + name).join(", ");
    const one = task.engine;
    const rows = one ? [["size", Frame.bytes(one.bytes)], ["TensorRT", shown([one.flavour, one.version].filter(Boolean).join(" "))],
      ["targets", shown(one.targets.join(", "))], ["layers", Frame.number(one.layers)]] : [];
    if (routes) rows.push(["nodes", shown(routes)]);
    if (one && one.plugin_layers.length) rows.push(["plugin layers", [shown(one.plugin_layers.join(", ")), more(task, "plugin_layers")]]);
    return rows.length ? section("Engine", facts(rows)) : null;
  }

  function command(task) {
    if (!task.command.length) return null;
    const text = task.command.map(Frame.shellWord).join(" ");
    const code = element("pre", { tabindex: "0" }, Frame.commandLine(task.command));
    const button = element("button", { type: "button", class: "screen-only" }, "Copy");
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected: copy it with Ctrl-C";
      }
    });
    return section("Command", code, button);
  }

  function files(task) {
    const record = task.status !== "cancelled" && fileLink(task, "record.json", "record.json");
    const rows = Object.entries(task.files).sort(([a], [b]) => a.localeCompare(b)).map(([name, one]) => element("tr", {},
      element("th", { scope: "row" }, fileLink(task, name, Frame.shown(name, 80)) || Frame.shown(name, 80)), element("td", { class: "number" }, Frame.bytes(one.bytes)),
      element("td", { class: "code soft", title: one.sha256 }, one.sha256.slice(0, 16))));
    if (!rows.length && !record) return null;
    return section("Files", rows.length ? plain("files", ["file", "size", "sha256"], rows, [1]) : null,
      record && element("p", {}, "All that is known of the task: ", record));
  }

  // A link to a file of the task's folder; null for a name that no address holds.
  function fileLink(task, name, text) {
    const path = "./" + task.name + "/" + name;
    if (/[\u0000-\u001f]/.test(path) || encoded(path) === "") return null;
    return element("a", { href: path }, text);
  }

  function encoded(text) { try { return encodeURIComponent(text); } catch { return ""; } }

  function origin(task) {
    const rows = [["began", Frame.shown(task.began)], ["from", { run: "this run", cache: "the cache", kept: "the folder, from an earlier call" }[task.source]]];
    for (const [name, value] of Object.entries(task.place)) if (value !== "") rows.push([Frame.shown(name, 40), Frame.shown(value)]);
    if (task.attempts > 1) rows.push(["attempts", task.attempts]);
    if (task.peak_mib) rows.push(["peak memory", Frame.number(task.peak_mib) + " MiB"]);
    for (const [name, value] of Object.entries(task.seconds)) rows.push([name === "total" ? "in all" : Frame.shown(name, 40), Frame.seconds(value)]);
    for (const [name, value] of Object.entries(task.versions)) rows.push([Frame.shown(name, 40), Frame.shown(value)]);
    return section("Where, when, with what", facts(rows));
  }

  function section(name, ...children) { return element("section", {}, element("h3", {}, name), children); }

  function facts(rows) {
    return element("dl", { class: "facts" }, rows.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }

  function plain(label, heads, rows, numbers) {
    return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, element("table", {},
      element("thead", {}, element("tr", {}, heads.map((text, at) => element("th", { scope: "col", class: numbers.includes(at) ? "number" : "" }, text)))),
      element("tbody", {}, rows)));
  }

  return { make };
})();
