"use strict";

// The page of a batch: summary, filters, the grid where there is a matrix, the table, and the details of the task that is chosen.
(() => {
  const { data, element } = Frame;
  const byId = (id) => document.getElementById(id);
  const tasks = data.tasks, summary = data.summary;

  byId("title").textContent = Frame.shown(data.title || "Results of trtsmith batch");
  byId("written").textContent = "written " + Frame.shown(data.written) + " by trtsmith " + Frame.shown(data.trtsmith) +
    (summary.ended < summary.planned ? " · " + (summary.planned - summary.ended).toLocaleString("en") + " tasks have not ended" : "");

  function cards() {
    const card = (value, text) => element("div", { class: "card" }, element("b", {}, value), element("span", {}, text));
    const fromElsewhere = (summary.sources.cache || 0) + (summary.sources.kept || 0);
    return [
      card(summary.ended < summary.planned ? summary.ended.toLocaleString("en") + " / " + summary.planned.toLocaleString("en")
        : summary.ended.toLocaleString("en"), summary.ended < summary.planned ? "tasks ended" : "tasks"),
      card(summary.passed.toLocaleString("en"), "passed"),
      card((summary.ended - summary.passed).toLocaleString("en"), "not passed"),
      fromElsewhere ? card(fromElsewhere.toLocaleString("en"), "cached or kept") : null,
      typeof summary.wall_s === "number" ? card(Frame.seconds(summary.wall_s), "in all") : null,
      summary.seconds ? card(Frame.seconds(summary.seconds), "of conversions") : null,
      card(Frame.bytes(summary.engine_bytes), "of engines"),
      card(summary.warnings.toLocaleString("en"), "warnings"),
    ].filter(Boolean);
  }

  // Tasks of one status by the colour of their badges, the best first: an agreement that rests on less is not wholly green.
  const colours = (status) => ["good", "fair", "bad"].map((kind) =>
    [kind, tasks.filter((task) => task.status === status && Figures.kind(task) === kind).length]).filter(([, count]) => count);
  const buttons = new Map(Figures.ORDER.filter((status) => summary.statuses[status]).map((status) => [status,
    element("button", { type: "button", class: "part " + colours(status).at(-1)[0], title: Figures.MEANS[status],
      "aria-pressed": "false", onclick: () => filters.toggle(status) },
    element("b", {}, summary.statuses[status].toLocaleString("en")), " " + status)]));
  const stripe = element("div", { class: "stripe", "aria-hidden": "true" }, [...buttons.keys()].flatMap(colours).map(([kind, count]) => {
    const part = element("span", { class: kind });
    part.style.flexGrow = String(count);
    return part;
  }));
  for (const warning of data.warnings) {
    byId("summary").append(element("div", { class: "note fair", role: "note" },
      warning.split("\n").map((line) => element("p", {}, Frame.shown(line, 400)))));
  }
  if (data.not_run) byId("summary").append(element("div", { class: "note fair", role: "note" }, data.not_run));
  byId("summary").append(element("div", { class: "cards" }, cards()), stripe,
    element("div", { class: "parts", role: "group", "aria-label": "filter by status" }, [...buttons.values()]));

  let current = null;
  const details = Details.make(() => document.querySelector('#tasks tr[aria-selected="true"]'), (by) => {
    const seen = table.visible(), next = seen[seen.indexOf(current) + by];
    if (next) show(next);
  });
  const show = (task) => { current = task; table.select(task); details.show(task); };
  document.body.appendChild(details.element);

  const several = new Set(tasks.map((task) => task.model)).size < tasks.length;
  const number = true;
  const columns = [
    { title: "model", value: (task) => (several ? task.model : task.name) },
    ...data.axes.map((axis) => ({ title: Frame.shown(axis, 30), value: (task) => task.variant[axis] ?? "" })),
    { title: "status", value: (task) => task.status, cell: Figures.status },
    { title: "error", number, value: Figures.error, cell: (task) => Frame.number(Figures.error(task), 2) },
    { title: "of tolerance", number, value: Figures.used, cell: tolerance },
    { title: "engine", number, value: Figures.size, cell: (task) => Frame.bytes(Figures.size(task)) },
    { title: "latency ms", number, value: Figures.latency, cell: (task) => Figures.milliseconds(Figures.latency(task)) },
    { title: "default ms", number, value: Figures.untuned, cell: (task) => Figures.milliseconds(Figures.untuned(task)) },
    { title: "tuned ms", number, value: Figures.tuned, cell: (task) => Figures.milliseconds(Figures.tuned(task)) },
    { title: "seconds", number, value: Figures.total, cell: (task) => Frame.number(Figures.total(task)) },
    { title: "warnings", number, value: (task) => task.warnings.length, cell: (task) => task.warnings.length || "" },
    { title: "plugin", number, value: Figures.plugins, cell: (task) => Figures.plugins(task) || "" },
    { title: "nodes", number, value: Figures.nodes, cell: (task) => Figures.nodes(task) || "" },
    { title: "from", value: (task) => task.source },
  ].filter((column) => !column.title.endsWith(" ms") || tasks.some((task) => column.value(task) !== null));
  const table = Table.make({ columns, rows: tasks, label: "tasks", pick: show, empty: "no task is left by the filters" });
  const grid = data.axes.length && several ? Grid.make(data.axes, show) : null;

  function tolerance(task) {
    const used = Figures.used(task);
    if (used === null) return "";
    const said = used === Infinity ? "beyond" : Figures.share(used);
    return used > 1 ? element("span", { class: "beyond" }, said) : said;
  }

  const filters = Filters.make(tasks, data.axes, (left) => {
    table.show(left);
    if (grid) grid.show(left);
    const chosen = filters.status();
    for (const [status, button] of buttons) button.setAttribute("aria-pressed", String(status === chosen));
  });
  byId("filters").append(filters.element);
  if (grid) byId("grid").append(grid.element);
  byId("tasks").append(table.element);
  const kinds = Kinds.make(tasks, (chosen, text) => {
    filters.restrict(chosen, text);
    byId("tasks").scrollIntoView();
  });
  if (kinds) byId("kinds").append(kinds);
  for (const id of ["grid", "kinds"]) {
    byId(id).hidden = id === "grid" ? !grid : !kinds;
    for (const link of document.querySelectorAll('.bar a[href="#' + id + '"]')) link.hidden = byId(id).hidden;
  }
  filters.tell();

  function fromAddress() {
    const found = /^#task=(.+)$/.exec(location.hash);
    if (!found) return;
    let name = "";
    try { name = decodeURIComponent(found[1]); } catch { return; }
    const task = tasks.find((one) => one.name === name);
    if (task) show(task);
  }
  addEventListener("hashchange", fromAddress);
  fromAddress();
})();
