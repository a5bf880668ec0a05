"use strict";

// The network on a canvas: dragged, zoomed by wheel and keys, and asked by clicks.
function networkView(network, { onPick }) {
  const canvas = Frame.element("canvas", { tabindex: "0", role: "img",
    "aria-label": "the network; arrows move, + and - zoom, 0 shows all; the table of nodes below has the same as text" });
  const holder = Frame.element("div", { class: "canvas" }, canvas);
  const painter = networkPainter(network, canvas);
  const view = { scale: 1, x: 0, y: 0 };
  let width = 0, height = 0, waiting = false, picked = -1, fitted = true, animation = 0;
  const MOST = 3;
  let least = 0.004; // or what shows all, of networks that are wider still

  function ask() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; if (width > 0) painter.paint(view, width, height); });
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    width = holder.clientWidth; height = holder.clientHeight;
    canvas.width = Math.max(1, Math.round(width * ratio)); canvas.height = Math.max(1, Math.round(height * ratio));
    if (fitted) fit();
    if (width > 0) painter.paint(view, width, height); // at once: a canvas that changes its size is empty
  }

  function clamp(scale) { return Math.min(MOST, Math.max(least, scale)); }

  function fit() {
    const { left, top, right, bottom } = painter.bounds;
    const whole = Math.min(width / (right - left), height / (bottom - top), 1.2);
    if (whole > 0) least = Math.min(least, whole);
    view.scale = clamp(whole);
    view.x = (width - (left + right) * view.scale) / 2;
    view.y = (height - (top + bottom) * view.scale) / 2;
    fitted = true;
    ask();
  }

  function move(dx, dy) { stop(); view.x += dx; view.y += dy; fitted = false; ask(); }

  function zoom(factor, px = width / 2, py = height / 2) {
    stop();
    const scale = clamp(view.scale * factor);
    view.x = px - (px - view.x) * scale / view.scale;
    view.y = py - (py - view.y) * scale / view.scale;
    view.scale = scale;
    fitted = false;
    ask();
  }

  // To a node, smoothly where the reader wants motion: one sees where it lies.
  function goTo(at) {
    stop();
    const scale = Math.max(view.scale, 0.8);
    const end = { scale, x: width / 2 - network.x[at] * scale, y: height / 2 - network.y[at] * scale };
    fitted = false;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden) { Object.assign(view, end); ask(); return; }
    const begin = { ...view }, started = performance.now();
    const middle = { x: (width / 2 - begin.x) / begin.scale, y: (height / 2 - begin.y) / begin.scale };
    const step = (now) => {
      const part = Math.min(1, (now - started) / 280), eased = 1 - (1 - part) ** 3;
      view.scale = begin.scale * (end.scale / begin.scale) ** eased;
      const cx = middle.x + (network.x[at] - middle.x) * eased, cy = middle.y + (network.y[at] - middle.y) * eased;
      view.x = width / 2 - cx * view.scale; view.y = height / 2 - cy * view.scale;
      painter.paint(view, width, height);
      animation = part < 1 ? requestAnimationFrame(step) : 0;
    };
    animation = requestAnimationFrame(step);
  }
  function stop() { if (animation) cancelAnimationFrame(animation); animation = 0; }

  function placeOf(event) {
    const rectangle = canvas.getBoundingClientRect();
    return [event.clientX - rectangle.left, event.clientY - rectangle.top];
  }
  function nodeAt(px, py) {
    return painter.nodeAt((px - view.x) / view.scale, (py - view.y) / view.scale, Math.max(2, 6 / view.scale));
  }

  // One pointer drags, two zoom.
  const pointers = new Map();
  let moved = 0, apart = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, placeOf(event));
    moved = 0; apart = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = placeOf(event), before = pointers.get(event.pointerId);
    if (!before) {
      const at = nodeAt(...now);
      canvas.style.cursor = at < 0 ? "grab" : "pointer";
      canvas.title = at < 0 ? "" : Frame.shown(network.label(network.drawn[at]));
      return;
    }
    pointers.set(event.pointerId, now);
    if (pointers.size === 1) {
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (moved > 4) { canvas.style.cursor = "grabbing"; move(now[0] - before[0], now[1] - before[1]); }
    } else if (pointers.size === 2) {
      const [one, other] = [...pointers.values()];
      const distance = Math.hypot(one[0] - other[0], one[1] - other[1]);
      if (apart) zoom(distance / apart, (one[0] + other[0]) / 2, (one[1] + other[1]) / 2);
      apart = distance; moved = 99;
    }
  });
  const release = (event) => { pointers.delete(event.pointerId); apart = 0; canvas.style.cursor = "grab"; };
  canvas.addEventListener("pointerup", (event) => {
    const last = pointers.size === 1;
    release(event);
    if (last && moved <= 4) {
      const at = nodeAt(...placeOf(event));
      select(at);
      onPick(at < 0 ? -1 : network.drawn[at]);
    }
  });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("dblclick", (event) => zoom(event.shiftKey ? 0.5 : 2, ...placeOf(event)));
  // The wheel scrolls the page until the network is chosen by a click or by Tab; with Ctrl it zooms at once.
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016)), ...placeOf(event));
  }, { passive: false });

  const KEYS = {
    ArrowLeft: () => move(80, 0), ArrowRight: () => move(-80, 0), ArrowUp: () => move(0, 80), ArrowDown: () => move(0, -80),
    "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), "0": fit, Escape: () => { select(-1); onPick(-1); },
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  function select(at) { picked = at; painter.pick(at); ask(); }

  new ResizeObserver(resize).observe(holder);
  Frame.onTheme(() => { painter.theme(); ask(); });
  addEventListener("beforeprint", () => { painter.theme(); resize(); });
  return {
    element: holder, canvas, view, fit, zoom, goTo, select, ask, painter,
    picked: () => picked,
    show(node) { // a node of the network, drawn or not
      const shown = network.standIn(node);
      if (shown < 0) return;
      select(network.place[shown]);
      goTo(network.place[shown]);
    },
  };
}
