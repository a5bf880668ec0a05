"use strict";

// Tables that are sorted and filtered where they stand. Of long ones only the rows in sight are elements.
const Table = (() => {
  const ROW = 28; // px; table.css gives rows of a windowed table this height
  const WINDOWED = 400; // rows from which on a table is a window
  const PRINTED = 150; // rows of a long table that go to paper
  const READABLE = 22; // characters below which no column of longer texts is squeezed: the box scrolls instead
  const element = Frame.element;

  // columns: {title, value(row): text or number to sort and search by, cell(row): what to show (default: the value),
  //   number: whether it is one, choices: whether it has a menu of its values}. label: for those who cannot see it.
  // search: whether there is a field. pick(row): called for a row that is chosen. order: [column, descending] at first.
  // Gives {element, show(rows), select(row), visible()}.
  function make({ columns, rows, label, search = false, pick = null, order = null, empty = "nothing" }) {
    let all = rows, seen = rows, sorted = order, chosen = null, stop = null, words = [], drawn = [-1, -1], printing = false;
    const picked = new Map(); // column -> the value that is asked for
    const texts = new WeakMap(), rowOf = new WeakMap();

    const body = element("tbody");
    const heads = columns.map((column, at) => element("th", { scope: "col", class: column.number ? "number" : "" },
      element("button", { type: "button", onclick: () => sort(at) }, column.title)));
    const table = element("table", { "aria-label": label, role: pick ? "grid" : null }, element("thead", {}, element("tr", {}, heads)), body);
    const scroll = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, table);
    const count = element("span", { class: "count", "aria-live": "polite" });
    const tools = element("div", { class: "tools" });
    const outer = element("div", { class: "table" }, tools, scroll);

    const menus = new Map();
    if (search) {
      const field = element("input", { type: "search", placeholder: "filter", "aria-label": "filter " + label });
      field.addEventListener("input", () => { words = split(field.value); narrow(); });
      tools.appendChild(field);
    }
    columns.forEach((column, at) => {
      if (!column.choices) return;
      const menu = element("select", { "aria-label": column.title });
      menu.addEventListener("change", () => {
        if (menu.selectedIndex === 0) picked.delete(at); else picked.set(at, menu.options[menu.selectedIndex].value);
        narrow();
      });
      menus.set(at, menu);
      tools.appendChild(element("label", {}, column.title, menu));
    });
    if (search || menus.size) tools.appendChild(count);

    function split(text) { return text.toLowerCase().split(/\s+/).filter(Boolean); }

    function textOf(row) {
      let text = texts.get(row);
      if (text === undefined) {
        text = columns.map((column) => column.value(row) ?? "").join("\n").toLowerCase();
        texts.set(row, text);
      }
      return text;
    }

    function fillMenus() {
      for (const [at, menu] of menus) {
        const values = [...new Set(all.map((row) => String(columns[at].value(row) ?? "")))].sort();
        const before = picked.get(at);
        if (before !== undefined && !values.includes(before)) picked.delete(at);
        menu.replaceChildren(element("option", { value: "" }, "all"),
          ...values.map((value) => element("option", { value }, Frame.shown(value || "–", 60))));
        menu.selectedIndex = before === undefined ? 0 : values.indexOf(before) + 1;
      }
    }

    function narrow() {
      seen = all.filter((row) => {
        for (const [at, value] of picked) if (String(columns[at].value(row) ?? "") !== value) return false;
        return words.length === 0 || words.every((word) => textOf(row).includes(word));
      });
      arrange();
    }

    function arrange() {
      heads.forEach((head, at) => {
        if (sorted && sorted[0] === at) head.setAttribute("aria-sort", sorted[1] ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      if (sorted) {
        const [at, down] = sorted, value = columns[at].value;
        const keys = new Map(seen.map((row) => [row, value(row)]));
        seen = [...seen].sort((one, other) => compare(keys.get(one), keys.get(other), down));
      }
      count.textContent = seen.length === all.length ? all.length.toLocaleString("en")
        : seen.length.toLocaleString("en") + " of " + all.length.toLocaleString("en");
      scroll.classList.toggle("windowed", seen.length > WINDOWED);
      table.setAttribute("aria-rowcount", seen.length + 1);
      drawn = [-1, -1];
      draw();
    }

    // What has no value comes last, whichever way a column is sorted.
    function compare(one, other, down) {
      const lacks = (value) => value === undefined || value === null || value === "";
      if (lacks(one) || lacks(other)) return (lacks(one) ? 1 : 0) - (lacks(other) ? 1 : 0);
      const order = typeof one === "number" && typeof other === "number" ? one - other
        : String(one).localeCompare(String(other), "en", { numeric: true });
      return down ? -order : order;
    }

    function sort(at) {
      const down = sorted && sorted[0] === at ? !sorted[1] : Boolean(columns[at].number);
      sorted = [at, down];
      narrow();
    }

    function draw() {
      const windowed = seen.length > WINDOWED;
      let from = 0, to = seen.length;
      if (windowed && printing) to = PRINTED;
      else if (windowed) {
        const height = scroll.clientHeight || 600;
        from = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 20);
        to = Math.min(seen.length, Math.ceil((scroll.scrollTop + height) / ROW) + 20);
      }
      if (from === drawn[0] && to === drawn[1]) return;
      drawn = [from, to];
      const at = seen.indexOf(stop), focused = body.contains(document.activeElement);
      if (at < from || at >= to) stop = seen[Math.min(to - 1, windowed && from ? from + 20 : 0)] ?? null;
      const made = [];
      if (windowed && !printing) made.push(space(from * ROW));
      for (let at = from; at < to; at += 1) made.push(line(seen[at], at));
      if (windowed && !printing) made.push(space((seen.length - to) * ROW));
      if (windowed && printing) made.push(wide("the first " + PRINTED + " of " + seen.length + " rows"));
      if (seen.length === 0) made.push(wide(empty));
      body.replaceChildren(...made);
      if (focused) tabbed()?.focus({ preventScroll: true });
    }

    function wide(text) {
      return element("tr", {}, element("td", { colspan: columns.length, class: "nothing" }, text));
    }

    function space(height) {
      const cell = element("td", { class: "space", colspan: columns.length });
      cell.style.height = height + "px";
      return element("tr", { "aria-hidden": "true" }, cell);
    }

    function line(row, at) {
      const cells = columns.map((column) => element("td", { class: column.number ? "number" : "" },
        column.cell ? column.cell(row) : Frame.shown(column.value(row) ?? "")));
      const made = element("tr", { class: pick ? "pickable" : "", "aria-selected": pick ? String(row === chosen) : null,
        "aria-rowindex": at + 2, tabindex: !pick ? null : row === stop ? "0" : "-1" }, cells);
      rowOf.set(made, row);
      return made;
    }

    // Tab comes to one row; arrows go to the others, Enter and Space choose.
    function tabbed() { return body.querySelector('tr[tabindex="0"]'); }
    function stopAt(made) {
      tabbed()?.setAttribute("tabindex", "-1");
      made.setAttribute("tabindex", "0");
      stop = rowOf.get(made);
    }
    function choose(made) { select(rowOf.get(made)); pick(rowOf.get(made)); }
    if (pick) {
      body.addEventListener("click", (event) => { const made = event.target.closest("tr.pickable"); if (made) choose(made); });
      body.addEventListener("focusin", (event) => { const made = event.target.closest("tr.pickable"); if (made) stopAt(made); });
      body.addEventListener("keydown", (event) => {
        if (!rowOf.has(event.target)) return;
        const next = { ArrowDown: event.target.nextElementSibling, ArrowUp: event.target.previousElementSibling }[event.key];
        if (event.key === "Enter" || event.key === " ") choose(event.target);
        else if (next && rowOf.has(next)) {
          next.focus();
          draw(); // at once: the event of scrolling comes after the next key of a held arrow
        } else return;
        event.preventDefault();
      });
    }

    function select(row) {
      chosen = stop = row;
      drawn = [-1, -1];
      draw();
    }

    function show(next) { all = next; fillMenus(); narrow(); }

    scroll.addEventListener("scroll", () => { if (seen.length > WINDOWED) draw(); }, { passive: true });
    addEventListener("beforeprint", () => { printing = true; drawn = [-1, -1]; draw(); });
    addEventListener("afterprint", () => { printing = false; drawn = [-1, -1]; draw(); });
    fillMenus();
    narrow();
    columns.forEach((column, at) => {
      const longest = Math.max(0, ...[...body.rows].slice(0, 100).map((row) => row.cells[at]?.textContent.length ?? 0));
      if (!column.number && all.length) heads[at].style.minWidth = "calc(" + Math.min(READABLE, longest) + "ch + 1.3rem)";
    });
    return { element: outer, show, select, visible: () => seen };
  }

  return { make };
})();
