"use strict";

// The page of a difference: how many tasks became better or worse, versions that changed, and each change.
(() => {
  const { data, element } = Frame;
  const byId = (id) => document.getElementById(id);
  const KINDS = { worse: "bad", better: "good", different: "fair", "new": "", gone: "" };
  const shown = (text) => Frame.shown(text, 400);

  const side = (one) => shown(one.path) + " (" + (one.tasks < one.planned ? one.tasks.toLocaleString("en") + " of " : "") + one.planned.toLocaleString("en") + " tasks, written " + shown(one.written || "at an unknown time") + ")";
  byId("sides").append(element("bdi", {}, side(data.old)), " → ", element("bdi", {}, side(data.new)));
  byId("summary").append(element("div", { class: "cards" }, Object.entries(data.summary).map(([name, count]) =>
    element("div", { class: "card " + (count ? KINDS[name] || "" : "") }, element("b", {}, count.toLocaleString("en")), element("span", {}, name)))));

  const head = (...names) => element("thead", {}, element("tr", {}, names.map((name) => element("th", { scope: "col" }, name))));
  if (data.versions.length) {
    byId("versions").append(element("div", { class: "table fitting" }, element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "versions that changed" }, element("table", {}, head("package", "old", "new"),
      element("tbody", {}, data.versions.map((one) => element("tr", {}, element("th", { scope: "row" }, shown(one.package)),
        element("td", {}, shown(one.old || "–")), element("td", {}, shown(one.new || "–")))))))));
  } else byId("versions").hidden = true;

  // One row a change: so all of one kind stand together when the table is sorted or filtered.
  const rows = [
    ...data.tasks.flatMap((task) => task.changes.map((change) => ({ name: task.name, ...change }))),
    ...Object.entries(data.new_tasks).map(([name, status]) => ({ name, mark: "new", aspect: "task", old: "", new: status, note: "", items: [] })),
    ...Object.entries(data.gone_tasks).map(([name, status]) => ({ name, mark: "gone", aspect: "task", old: status, new: "", note: "", items: [] })),
  ];
  const columns = [
    { title: "mark", value: (row) => row.mark, cell: (row) => Frame.badge(row.mark, KINDS[row.mark]), choices: true },
    { title: "task", value: (row) => row.name, cell: (row) => element("bdi", {}, Frame.shown(row.name, 80)) },
    { title: "what", value: (row) => row.aspect, choices: true },
    { title: "old", value: (row) => row.old, cell: (row) => shown(row.old) },
    { title: "new", value: (row) => row.new, cell: (row) => shown(row.new) },
    { title: "note", value: (row) => [row.note, ...row.items].join("\n"), cell: note },
  ];

  function note(row) {
    if (row.items.length < 2) return shown(row.note || (row.aspect === "routes" && row.items[0]) || "");
    return element("details", {}, element("summary", {}, shown(row.note || row.items.length + " nodes")),
      row.items.map((one) => element("div", {}, shown(one))));
  }

  byId("tasks").append(Table.make({ columns, rows, label: "changes", search: true, empty: "nothing changed" }).element);
})();
