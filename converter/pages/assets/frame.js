"use strict";

// What the scripts of every page use: the data, elements made of text, numbers as people read them, and the theme.
const Frame = (() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);

  // Characters that no one sees, or that turn the text around them: shown by their code points.
  const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

  // A name on one line, with the middle left out where it is longer than `limit` characters.
  function shown(text, limit = 160) {
    let name = String(text);
    if (name.length > limit) {
      const half = Math.floor((limit - 1) / 2);
      name = name.slice(0, half) + "…" + name.slice(name.length - half);
    }
    return name.replace(UNSEEN, (one) =>
      SHORT[one] || "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
  }

  // An element. Attributes named on… are listeners; of the others only those that run and load nothing are taken.
  const HARMLESS = /^(class|id|title|type|value|placeholder|for|name|scope|colspan|rowspan|role|tabindex|lang|dir|open|hidden|disabled|aria-[a-z]+|data-[a-z-]+)$/;
  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith("on") && typeof value === "function") made.addEventListener(name.slice(2), value);
      else if (name === "href") made.setAttribute("href", safeLink(value));
      else if (HARMLESS.test(name)) made.setAttribute(name, value === true ? "" : String(value));
      else throw new Error("an attribute that pages do not use: " + name);
    }
    add(made, children);
    return made;
  }

  function add(parent, children) {
    for (const child of children) {
      if (Array.isArray(child)) add(parent, child);
      else if (child instanceof Node) parent.appendChild(child);
      else if (child !== undefined && child !== null && child !== false) parent.appendChild(document.createTextNode(String(child)));
    }
  }

  // Links lead to a place in the page, to a file beside it, or to https; anything else leads nowhere.
  function safeLink(target) {
    const text = String(target);
    if (text.startsWith("#")) return text;
    if (text.startsWith("https://")) return text;
    if (/^[a-z][a-z0-9+.-]*:/i.test(text) || text.startsWith("//") || /[\u0000-\u001f]/.test(text)) return "#";
    return text.split("/").map(encodeURIComponent).join("/");
  }

  // A number to so many significant digits; "nan" and "inf" stay as they are.
  function number(value, digits = 3) {
    if (value === null || value === undefined || value === "") return "";
    if (typeof value !== "number") return String(value);
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-3) return value.toExponential(Math.max(0, digits - 1)).replace("e+", "e");
    if (Number.isInteger(value)) return value.toLocaleString("en");
    return String(Number(value.toPrecision(digits)));
  }

  function bytes(count) {
    if (typeof count !== "number") return "";
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (count >= 1024 && at < units.length - 1) { count /= 1024; at += 1; }
    return (at === 0 ? count : number(count, 3)) + " " + units[at];
  }

  function seconds(value) {
    if (typeof value !== "number") return "";
    if (value < 1) return number(value * 1e3, 3) + " ms";
    if (value < 120) return number(value, 3) + " s";
    return Math.floor(value / 60) + " min " + Math.round(value % 60) + " s";
  }

  // A word of a command line as a POSIX shell takes it: as Python's shlex.quote does.
  function shellWord(word) {
    return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\"'\"'") + "'";
  }

  // A command line that breaks between its words: browsers break after any hyphen, and -- is then no flag.
  function commandLine(words) {
    return words.map((word, at) => [at ? " " : "", element("span", { class: "shell-word" }, shown(shellWord(word), 2000))]);
  }

  function badge(text, kind) { return element("span", { class: "badge " + (kind || "") }, text); }

  // Outputs that were not compared, each with the reason, but for one that the verdict's own reason names.
  function notCompared(verdict) {
    return verdict.left_out.filter((one) => one.accepted || !verdict.reason.includes(one.why)).map((one) => element("div", { class: "note fair" }, element("p", {}, element("b", {}, shown(one.output)), " ", badge("not compared", "fair")),
      element("p", {}, shown(one.why + (one.accepted ? "; accepted" : ""), 2000))));
  }

  // The colours in force as rgb(…), for canvases: what a variable holds is a pair until an element uses it.
  function colour(variable) {
    const probe = document.createElement("span");
    probe.style.color = "var(" + variable + ")";
    document.body.appendChild(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  // Theme: as the system has it, until the reader chooses. Where the browser keeps nothing for files, it lasts for the visit.
  const listeners = [];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = {
    read() { try { return localStorage.getItem("trtsmith-theme"); } catch { return null; } },
    write(theme) { try { localStorage.setItem("trtsmith-theme", theme); } catch { /* not kept */ } },
  };
  function dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : system.matches;
  }
  function tell() { for (const listener of listeners) listener(); }
  function startTheme() {
    const before = kept.read();
    if (before === "light" || before === "dark") document.documentElement.dataset.theme = before;
    const place = document.querySelector("[data-theme-button]");
    if (!place) return;
    const button = element("button", { type: "button", title: "light or dark" });
    const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      const theme = dark() ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      kept.write(theme);
      label();
      tell();
    });
    system.addEventListener("change", () => { label(); tell(); });
    label();
    place.appendChild(button);
  }
  startTheme();

  // Paper is white: canvases, too, are drawn in the light colours while the page is printed.
  let chosen = null;
  addEventListener("beforeprint", () => { chosen = document.documentElement.dataset.theme ?? ""; document.documentElement.dataset.theme = "light"; tell(); });
  addEventListener("afterprint", () => {
    if (chosen) document.documentElement.dataset.theme = chosen; else delete document.documentElement.dataset.theme;
    tell();
  });

  return { data, shown, element, number, bytes, seconds, shellWord, commandLine, badge, notCompared, colour, dark, onTheme: (listener) => listeners.push(listener) };
})();
