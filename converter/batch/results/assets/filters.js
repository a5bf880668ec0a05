"use strict";

// The filters above the tasks: text, status, model and every axis of the matrix. What they leave is shown by all who listen.
const Filters = (() => {
  const element = Frame.element;
  const ONLY = "\u0000"; // no axis is called so

  // Gives {element, tell(), status(), toggle(status), restrict(tasks, text)}; changed(tasks) is called with what is left.
  function make(tasks, axes, changed) {
    const texts = new Map(tasks.map((task) => [task, textOf(task)]));
    const wanted = new Map(); // a name of a filter -> what a task has to have
    const field = element("input", { type: "search", placeholder: "name, warning, problem, …", "aria-label": "text that a task has",
      oninput: () => tell() });
    const count = element("span", { class: "count", role: "status" });
    const menus = [menu("status", (task) => task.status, Figures.ORDER)];
    if (new Set(tasks.map((task) => task.model)).size < tasks.length) menus.push(menu("model", (task) => task.model));
    for (const axis of axes) menus.push(menu(axis, (task) => task.variant[axis]));
    menus.push(menu("from", (task) => task.source));
    const only = element("span", { class: "badge fair only", hidden: true });
    const clear = element("button", { type: "button", onclick: () => reset() }, "Clear");
    const made = element("div", { class: "filters", role: "search" },
      element("label", {}, "Filter", field), menus.filter(Boolean).map((one) => one.label), only, clear, count);

    function menu(name, value, order) {
      const there = new Set(tasks.map(value).filter((one) => one !== undefined));
      if (there.size < 2 && name !== "status") return null;
      const sorted = order ? order.filter((one) => there.has(one)) : [...there].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      const select = element("select", { "aria-label": name }, element("option", { value: "" }, "all"),
        sorted.map((one, at) => element("option", { value: String(at) }, Frame.shown(one, 60))));
      const choose = (at) => {
        select.selectedIndex = at + 1;
        if (at < 0) wanted.delete(name); else wanted.set(name, (task) => value(task) === sorted[at]);
        tell();
      };
      select.addEventListener("change", () => choose(select.selectedIndex - 1));
      return { name, select, choose, index: (one) => sorted.indexOf(one), label: element("label", {}, Frame.shown(name, 30), select) };
    }

    function textOf(task) {
      const parts = [task.name, task.status, Figures.variant(task), ...task.warnings,
        ...task.problems.flatMap((one) => [one.what, one.where])];
      return parts.join("\n").toLowerCase();
    }

    function tell() {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      const tests = [...wanted.values()];
      const left = tasks.filter((task) => tests.every((test) => test(task)) && words.every((word) => texts.get(task).includes(word)));
      count.textContent = left.length === tasks.length ? tasks.length.toLocaleString("en") + " tasks"
        : left.length.toLocaleString("en") + " of " + tasks.length.toLocaleString("en") + " tasks";
      clear.hidden = left.length === tasks.length && words.length === 0 && tests.length === 0;
      only.hidden = !wanted.has(ONLY);
      changed(left);
    }

    function reset() {
      field.value = "";
      wanted.clear(); // the chosen tasks of `restrict` are one of them
      for (const one of menus) if (one) one.select.selectedIndex = 0;
      tell();
      field.focus();
    }

    return {
      element: made, tell, status: () => { const at = menus[0].select.selectedIndex; return at > 0 ? menus[0].select.options[at].textContent : ""; },
      // These tasks only; text says why.
      restrict(chosen, text) {
        wanted.set(ONLY, (task) => chosen.has(task));
        only.textContent = Frame.shown(text, 60);
        tell();
      },
      // The tasks of one status, or all again where they are shown already.
      toggle(status) {
        const at = menus[0].index(status);
        menus[0].choose(menus[0].select.selectedIndex === at + 1 ? -1 : at);
      },
    };
  }

  return { make };
})();
