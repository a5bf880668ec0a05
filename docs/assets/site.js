// lunr takes the dashes of a query such as `--precision` for "without": the search's worker gets the words alone.
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (typeof message?.data === "string") {
    message = { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") };
  }
  return post.call(this, message, ...rest);
};

// What the theme leaves without a name or out of reach of the keyboard. Its scripts add parts at any time.
const READABLE = 22; // characters below which no column of longer texts is squeezed: the table scrolls in its box instead
function reachable() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "search");
  for (const nav of document.querySelectorAll("nav.md-nav[aria-labelledby]")) { // an index page's label has an icon alone
    if (document.getElementById(nav.getAttribute("aria-labelledby"))?.textContent.trim()) continue;
    nav.removeAttribute("aria-labelledby");
    nav.setAttribute("aria-label", nav.querySelector(".md-nav__title").textContent.trim() + " pages");
  }
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "none");
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .highlight pre > code")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
}
// The copy button of a block takes the commands alone: neither the prompts nor the output, nor empty lines in its place.
function copyCommands() {
  for (const button of document.querySelectorAll(".highlight:has(.gp) [data-md-type=copy]:not([data-clipboard-text])")) {
    const code = button.closest("pre").querySelector("code").cloneNode(true);
    for (const part of code.querySelectorAll(".gp, .go")) part.remove();
    button.dataset.clipboardText = code.textContent.replace(/^\s*\n/gm, "");
  }
}
for (const head of document.querySelectorAll(".md-typeset th:empty")) head.replaceWith(document.createElement("td")); // a corner
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  for (const [at, head] of [...table.rows[0].cells].entries()) {
    const longest = Math.max(...[...table.rows].slice(0, 100).map((row) => row.cells[at]?.textContent.length ?? 0));
    head.style.minWidth = `calc(${Math.min(READABLE, longest)}ch + 2.5em)`;
  }
}
function mend() { reachable(); copyCommands(); }
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mend);
mend();
