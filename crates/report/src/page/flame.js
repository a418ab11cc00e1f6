"use strict";
// A flame graph of boxes, outermost frame on top. The data are names, and four numbers a node in
// the order of a walk: depth, name, own samples, samples with callees.
{
  const data = JSON.parse(document.getElementById("flame-data").textContent);
  const place = document.getElementById("flame"), pointed = document.getElementById("pointed");
  const search = document.getElementById("search"), found = document.getElementById("found");
  const ROW = 20, ABOVE_MAX = 12, ROWS_MAX = 300, NARROWEST = 0.6, count = data.nodes.length / 4;
  const depth = i => data.nodes[4 * i], name = i => data.names[data.nodes[4 * i + 1]];
  const own = i => data.nodes[4 * i + 2], total = i => data.nodes[4 * i + 3];

  // Where a node begins, who is above it, and the first node that is not below it.
  const start = new Float64Array(count), parent = new Int32Array(count), behind = new Uint32Array(count).fill(count);
  const next = [0], path = [];
  for (let i = 0; i < count; i++) {
    const d = depth(i);
    while (path.length > d) behind[path.pop()] = i;
    parent[i] = d > 0 ? path[d - 1] : -1;
    path.push(i);
    start[i] = next[d];
    next[d] += total(i);
    next[d + 1] = start[i];
  }

  let focus = -1, wanted = null;
  const hue = text => {
    let hash = 7;
    for (const letter of text.slice(0, Math.max(text.lastIndexOf("::"), 0))) hash = (hash * 31 + letter.charCodeAt(0)) % 997;
    return 8 + hash % 46;
  };
  const matches = i => wanted !== null && name(i)[0].toLowerCase().includes(wanted);
  const share = n => (100 * n / data.samples).toFixed(1) + " %";
  const seconds = n => (n * data.each_s).toPrecision(3) + " s";
  const words = i => `${name(i)[0]}  ${share(total(i))}, ${seconds(total(i))} with callees; own ${share(own(i))}, ${seconds(own(i))}` +
    (name(i)[1] ? `  ${name(i)[1]}` : "");

  const box = (i, left, width, row) => {
    const element = document.createElement("div"), [text, , colour] = name(i);
    element.className = `box ${colour}${matches(i) ? " match" : ""}`;
    element.style.cssText = `left:${100 * left}%;width:${100 * width}%;top:${row * ROW}px;--hue:${hue(text)}`;
    if (width * place.clientWidth > 24) element.textContent = text;
    element.dataset.i = i;
    return element;
  };
  const draw = () => {
    const boxes = document.createDocumentFragment(), top = focus < 0 ? 0 : depth(focus);
    const first = Math.max(0, top - ABOVE_MAX), from = focus < 0 ? 0 : start[focus];
    const whole = focus < 0 ? next[0] : total(focus), least = NARROWEST / Math.max(place.clientWidth, 1);
    let rows = 1, above = focus < 0 ? -1 : parent[focus];
    for (; above >= 0 && depth(above) >= first; above = parent[above]) {
      const element = box(above, 0, 1, depth(above) - first);
      element.classList.add("above");
      boxes.append(element);
    }
    for (let i = Math.max(focus, 0); i < (focus < 0 ? count : behind[focus]);) {
      const width = total(i) / whole, row = depth(i) - first;
      if (width < least || row >= ROWS_MAX) { i = behind[i]; continue; }
      boxes.append(box(i, (start[i] - from) / whole, width, row));
      rows = Math.max(rows, row + 1);
      i++;
    }
    place.replaceChildren(boxes);
    place.style.height = `${rows * ROW}px`;
  };
  const look = () => {
    wanted = search.value.trim().toLowerCase() || null;
    let sum = 0;
    for (let i = 0; wanted !== null && i < count;) {
      if (matches(i)) { sum += total(i); i = behind[i]; } else i++;
    }
    found.textContent = wanted === null ? "" : `${share(sum)} of the samples`;
    draw();
  };
  const go = i => { focus = i; draw(); };
  const at = event => event.target.dataset.i === undefined ? -1 : Number(event.target.dataset.i);
  place.addEventListener("click", event => { const i = at(event); if (i >= 0) go(i === focus ? parent[i] : i); });
  place.addEventListener("mousemove", event => { const i = at(event); pointed.textContent = i < 0 ? "\u00a0" : words(i); });
  document.getElementById("all").addEventListener("click", () => { search.value = ""; focus = -1; look(); });
  addEventListener("keydown", event => { if (event.key === "Escape") go(-1); });
  addEventListener("resize", draw);
  search.addEventListener("input", look);
  draw();
}
