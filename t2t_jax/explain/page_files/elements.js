// Elements of the page. What a user wrote only ever becomes a text node.

/** An element with properties (`class`, `on...`, attributes) and children: elements or texts. */
function make(name, properties = {}, ...children) {
  const svg = ["svg", "path", "circle", "text", "line", "g", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [rule, what] of Object.entries(value)) element.style.setProperty(rule, what);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Text in which _{...} and ^{...} are set below and above the line. */
function formula(text) {
  return text.split(/([_^]\{[^}]*\})/).filter(Boolean).map((piece) => {
    if (/^[_^]\{/.test(piece)) return make(piece[0] === "_" ? "sub" : "sup", {}, piece.slice(2, -1));
    return piece;
  });
}

/** A number as the page writes it: in German with a comma. */
function written(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  const text = value.toFixed(digits).replace("-", "−");
  return document.documentElement.lang === "de" ? text.replace(".", ",") : text;
}

/** One tab stop for a row of buttons: arrow keys go from one to the next. */
function roving(group) {
  const buttons = () => [...group.querySelectorAll("button")];
  buttons().forEach((button, place) => (button.tabIndex = place === 0 ? 0 : -1));
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const all = buttons();
    let place = all.indexOf(document.activeElement);
    if (place < 0 || (!step && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    place = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : place + step;
    place = Math.max(0, Math.min(all.length - 1, place));
    all.forEach((button, other) => (button.tabIndex = other === place ? 0 : -1));
    all[place].focus();
  });
  return group;
}

/** A table of rows of cells, the first row its header. */
function table(header, rows, properties = {}) {
  return make(
    "table", properties,
    make("thead", {}, make("tr", {}, header.map((cell) => make("th", { scope: "col" }, cell)))),
    make("tbody", {}, rows.map((row) => make("tr", row.properties || {}, (row.cells || row).map((cell) => make("td", {}, cell))))),
  );
}

/** What is wider than the page scrolls by itself, by keyboard too. */
function scroll(label, ...children) {
  return make("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": label }, ...children);
}
