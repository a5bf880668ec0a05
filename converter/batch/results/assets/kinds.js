"use strict";

// Problems, verdicts that do not pass, and warnings of one kind together: they are of one kind where only their numbers differ.
const Kinds = (() => {
  const element = Frame.element;
  const COLOURS = { ...Figures.KINDS, problem: "bad", warning: "fair" };

  function groups(tasks) {
    const found = new Map();
    const note = (task, kind, text) => {
      const key = kind + "\n" + text.replace(/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/g, "#");
      if (!found.has(key)) found.set(key, { kind, text, tasks: new Set() });
      found.get(key).tasks.add(task);
    };
    for (const task of tasks) {
      for (const one of task.problems) note(task, "problem", one.what);
      if (!task.passed && !task.problems.length && task.verdict) note(task, task.status, task.verdict.reason);
      for (const text of task.warnings) note(task, "warning", text);
    }
    return [...found.values()].sort((one, other) => other.tasks.size - one.tasks.size);
  }

  // pick(tasks, text): called for a kind that is chosen. Null where there are none.
  function make(tasks, pick) {
    const rows = groups(tasks);
    if (!rows.length) return null;
    const columns = [
      { title: "kind", value: (row) => row.kind, cell: (row) => Frame.badge(row.kind, COLOURS[row.kind]) },
      { title: "what", value: (row) => row.text, cell: (row) => Frame.shown(row.text, 300) },
      { title: "tasks", number: true, value: (row) => row.tasks.size },
      { title: "for example", value: (row) => [...row.tasks][0].name,
        cell: (row) => element("bdi", {}, Frame.shown([...row.tasks][0].name, 60)) },
    ];
    return Table.make({ columns, rows, label: "problems and warnings", pick: (row) => pick(row.tasks, row.text) }).element;
  }

  return { make };
})();
