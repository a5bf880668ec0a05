"use strict";

// What tables, the grid and the details say of a task: its figures, each in one place.
const Figures = (() => {
  const KINDS = {
    agree: "good", converted: "good", disagree: "bad", refused: "bad", invalid: "bad", crashed: "bad", timeout: "bad",
    memory: "bad", "not comparable": "bad", lost: "fair", cancelled: "fair",
  };
  const ORDER = Object.keys(KINDS);
  const MEANS = {
    agree: "converted, and the numbers agree",
    converted: "converted; no comparison was asked for",
    disagree: "converted; the numbers disagree",
    "not comparable": "converted; not every output could be compared",
    refused: "not convertible, or TensorRT refuses to build it",
    invalid: "the model or the options are not sound, or the machine lacks something",
    crashed: "a process died",
    timeout: "it took longer than it was given",
    memory: "it took more memory than it was given",
    lost: "the worker or the machine that had it is gone, after its retries too",
    cancelled: "the whole was ended before it was done",
  };

  // The output that takes most of its tolerance; one that disagrees without a number is beyond all.
  function worst(task) {
    let found = null, most = -1;
    for (const one of task.verdict ? task.verdict.outputs : []) {
      const share = one.used ?? (one.agrees ? (one.relative ?? 0) * 1e-9 : Infinity);
      if (share > most) { most = share; found = one; }
    }
    return found;
  }

  // The run that stands for a task in tables: of the usual sizes, without a CUDA graph, else the first.
  function run(task) {
    const runs = task.bench ? task.bench.runs : [];
    return runs.find((one) => one.point === "opt" && !one.cuda_graph) || runs.find((one) => one.point === "opt") || runs[0] || null;
  }

  function total(task) {
    if (typeof task.seconds.total === "number") return task.seconds.total;
    const parts = Object.values(task.seconds);
    return parts.length ? parts.reduce((sum, one) => sum + one, 0) : null;
  }

  function share(used) {
    if (typeof used !== "number") return "";
    return used > 99.95 ? Frame.number(used, 2) + "×" : used > 0 && used < 0.01 ? "< 1 %" : Math.round(used * 100) + " %";
  }

  function milliseconds(value) { return typeof value === "number" ? Frame.number(value, 4) : ""; }

  // A status with what it rests on; only the engine itself, against a computation other than ours, is wholly green.
  function words(task) {
    const basis = task.status === "agree" && task.verdict ? task.verdict.basis : [];
    return task.status + (basis.length ? " (" + basis.join("; ") + ")" : "");
  }

  function kind(task) { return words(task) === "agree" || task.status !== "agree" ? KINDS[task.status] || "" : "fair"; }

  function status(task) {
    const made = Frame.badge(words(task), kind(task));
    made.title = MEANS[task.status] || "";
    return made;
  }

  function variant(task) {
    return Object.entries(task.variant).map(([axis, value]) => axis + " " + value).join(", ");
  }

  return {
    KINDS, ORDER, MEANS, status, words, kind, share, milliseconds, variant, total,
    error: (task) => { const one = worst(task); return one ? one.relative ?? (one.agrees ? null : "∞") : null; },
    used: (task) => { const one = worst(task); return one ? one.used ?? (one.agrees ? null : Infinity) : null; },
    size: (task) => task.engine ? task.engine.bytes : null,
    latency: (task) => { const one = run(task); return one ? one.latency_ms.median : null; },
    tuned: (task) => task.tune ? task.tune.ms : null,
    untuned: (task) => task.tune ? task.tune.default_ms : null,
    plugins: (task) => (task.routes.plugin || 0) + (task.routes["stock plugin"] || 0),
    nodes: (task) => Object.values(task.routes).reduce((sum, one) => sum + one, 0),
    worst,
  };
})();
