"use strict";

// The page of a search: latency against error of every engine that was tried, and the flags of each.
(() => {
  const data = Frame.data, element = Frame.element;
  const made = data.trials.filter((one) => one.ms !== undefined);
  const isBest = (one) => one.flags === data.best.flags;

  const table = Table.make({ label: "engines that were tried", rows: data.trials, search: data.trials.length > 10, order: [0, false], columns: [
    { title: "ms", number: true, value: (row) => row.ms ?? null, cell: (row) => Frame.number(row.ms, 4) },
    { title: "error", number: true, value: (row) => row.error ?? null, cell: (row) => Frame.number(row.error) },
    { title: "of the bound", number: true, value: (row) => row.share_of_bound ?? null,
      cell: (row) => (typeof row.share_of_bound === "number" ? Math.round(100 * row.share_of_bound) + " %" : "") },
    { title: "MiB", number: true, value: (row) => row.bytes ?? null, cell: (row) => (row.bytes ? Frame.number(row.bytes / 2 ** 20) : "") },
    { title: "flags", value: (row) => row.flags, cell: (row) => [isBest(row) ? element("b", {}, "best: ") : null, Frame.shown(row.flags, 200)] },
    { title: "failed", value: (row) => row.failed, cell: (row) => Frame.shown(row.failed, 300) }],
    pick: choose });
  const flags = element("pre", { class: "command", tabindex: "0" });

  function choose(row) {
    flags.textContent = "trtsmith convert MODEL " + (row.flags === "(no flags)" ? "" : row.flags);
    table.select(row);
  }

  const best = data.best, than = data.default;
  const text = Frame.number(best.ms, 4) + " ms, error " + Frame.number(best.error) +
    (than ? "; " + Frame.number(than.flags === best.flags ? 1 : best.ms / than.ms) + " of the time of " + Frame.shown(than.flags, 120) : "");
  document.getElementById("summary").append(element("h1", {}, "The fastest engine that is still right"), element("p", { class: "reason" }, text));
  document.getElementById("engines").append(
    element("figure", {}, Charts.depth(made.map((one) => ({ x: Math.round(1000 * one.ms), y: one.error, wrong: !(one.share_of_bound <= 1),
      label: () => Frame.number(one.ms, 4) + " ms, error " + Frame.number(one.error) + ": " + Frame.shown(one.flags, 200), pick: () => choose(one) })),
    { label: "latency and error of each engine; those beyond the bound are marked", unit: "latency in µs; error on a logarithmic scale", joined: false })),
    table.element, element("h3", {}, "The chosen engine's flags"), flags);
  choose(data.trials.find(isBest) || data.trials[0]);
})();
