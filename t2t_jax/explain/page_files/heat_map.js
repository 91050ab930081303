// A matrix as a picture, or as numbers; what a cell is worth is read by pointer and by arrow keys.

const LABEL_FONT = "12px system-ui, sans-serif";

/**
 * values: {shape: [rows, columns], data}, NaN where nothing may be seen.
 * options: title, rows, columns (names; [] counts from 0), digits, most (the full colour), words,
 *   numbers (a table), cell (pixels), flat (columns share the width of the page).
 */
function heatMap(values, options) {
  const plain = make("span", {}, ...formula(options.title)).textContent;
  let most = options.most;
  if (most === undefined) {
    most = 0;
    for (const value of values.data) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  }
  const names = {
    row: (i) => (options.rows && options.rows.length ? options.rows[i] : String(i)),
    column: (j) => (options.columns && options.columns.length ? options.columns[j] : String(j)),
  };
  const body = options.numbers ? numberTable(values, most, names, options, plain) : picture(values, most, names, options, plain);
  let [least, largest] = [Infinity, -Infinity];
  for (const value of values.data) {
    if (value < least) least = value;
    if (value > largest) largest = value;
  }
  const range = `${written(least, 2)} … ${written(largest, 2)}`;
  return make("figure", { class: "map", "data-map": options.name || "" },
    make("figcaption", {}, ...formula(options.title), options.name === "mask" ? null : make("span", { class: "range" }, range)), body);
}

function numberTable(values, most, names, options, plain) {
  const [rows, columns] = values.shape;
  const head = make("tr", {}, make("td"));
  for (let j = 0; j < columns; j++) head.append(make("th", { scope: "col" }, make("span", {}, names.column(j))));
  const body = make("tbody");
  for (let i = 0; i < rows; i++) {
    const row = make("tr", {}, make("th", { scope: "row" }, names.row(i)));
    for (let j = 0; j < columns; j++) {
      const value = values.data[i * columns + j];
      const colour = shade(value, most);
      const cell = make("td", {}, written(value, options.digits ?? 2));
      cell.style.backgroundColor = colour.css;
      cell.style.color = inkOn(colour);
      row.append(cell);
    }
    body.append(row);
  }
  return scroll(plain, make("table", { class: "numbers" }, make("thead", {}, head), body));
}

function picture(values, most, names, options, plain) {
  const [rows, columns] = values.shape;
  const longest = (count, name) => {
    let width = 0;
    for (let i = 0; i < count; i++) width = Math.max(width, widthOf(name(i)));
    return Math.min(110, Math.ceil(width) + 6);
  };
  const left = longest(rows, names.row);
  const named = options.columns && options.columns.length > 0;
  const top = named ? longest(columns, names.column) : 18;
  const height = options.cell || (options.flat ? 15 : 16);
  const width = options.flat ? Math.max(0.2, (options.width - left - 2) / columns) : height;
  const readout = make("output", { class: "readout", "aria-live": "polite" }, "\u00a0");
  const size = [Math.ceil(left + columns * width + 2), Math.ceil(top + rows * height + 2)];
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const canvas = canvasOf(Math.ceil(size[0] * ratio), Math.ceil(size[1] * ratio));
  canvas.setAttribute("aria-label", `${plain}: ${rows} × ${columns}`);
  canvas.style.width = `${size[0]}px`;
  canvas.style.height = `${size[1]}px`;
  let at = [-1, -1];

  function draw() {
    const brush = canvas.getContext("2d");
    brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    brush.clearRect(0, 0, ...size);
    brush.font = LABEL_FONT;
    brush.textBaseline = "middle";
    brush.fillStyle = cssColour("--ink");
    const every = Math.max(1, Math.ceil(13 / height));
    for (let i = 0; i < rows; i += every) {
      brush.textAlign = "right";
      brush.fillText(shortened(names.row(i), left - 5), left - 5, top + (i + 0.5) * height);
    }
    if (named) {
      for (let j = 0; j < columns; j++) {
        brush.save();
        brush.translate(left + (j + 0.5) * width, top - 5);
        brush.rotate(-Math.PI / 2);
        brush.textAlign = "left";
        brush.fillText(shortened(names.column(j), top - 6), 0, 0);
        brush.restore();
      }
    } else {
      brush.textAlign = "left";
      const step = Math.max(1, Math.ceil(columns / 8));
      for (let j = 0; j < columns; j += step) {
        if (left + j * width < size[0] - 20) brush.fillText(String(j), left + j * width, top - 9);
      }
    }
    // One picture with lines wiped out: faster than a rectangle for each cell.
    paint(CELLS, values, most);
    brush.imageSmoothingEnabled = false;
    brush.drawImage(CELLS, left, top, columns * width, rows * height);
    for (let i = 1; i <= rows; i++) brush.clearRect(left, top + i * height - 1, columns * width, 1);
    if (width > 4) for (let j = 1; j <= columns; j++) brush.clearRect(left + j * width - 1, top, 1, rows * height);
    if (at[0] >= 0) {
      brush.strokeStyle = cssColour("--mark");
      brush.lineWidth = 2;
      brush.strokeRect(left + at[1] * width - 1, top + at[0] * height - 1, Math.max(3, width + 1), height + 1);
    }
  }

  function read(i, j) {
    const is = i >= 0 && j >= 0 && i < rows && j < columns;
    at = is ? [i, j] : [-1, -1];
    draw();
    if (is) {
      const value = values.data[i * columns + j];
      readout.textContent = `${names.row(i)} → ${names.column(j)}: ${written(value, options.digits ?? 3)}`;
    } else readout.textContent = "\u00a0";
  }

  draw();
  return make("div", {}, make("div", {
    class: "scroll",
    onpointermove: (event) => {
      const box = canvas.getBoundingClientRect();
      const scale = size[0] / box.width;
      read(Math.floor(((event.clientY - box.top) * scale - top) / height), Math.floor(((event.clientX - box.left) * scale - left) / width));
    },
    onpointerleave: () => read(-1, -1),
    onfocusout: () => read(-1, -1),
    onfocusin: () => { if (at[0] < 0 && canvas.matches(":focus-visible")) read(0, 0); },
    onkeydown: (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      read(Math.max(0, Math.min(rows - 1, at[0] + step[0])), Math.max(0, Math.min(columns - 1, at[1] + step[1])));
    },
  }, canvas), readout);
}

let spare = [];

/** The maps of a box that is drawn anew leave their canvases: a new one takes longer than what is drawn on it. */
function reuse(box) {
  spare = [...box.querySelectorAll("canvas[role]")];
}

function canvasOf(width, height) {
  const place = spare.findIndex((canvas) => canvas.width === width && canvas.height === height);
  return place < 0 ? make("canvas", { width, height, tabindex: 0, role: "img" }) : spare.splice(place, 1)[0];
}

const RULER = document.createElement("canvas").getContext("2d");
RULER.font = LABEL_FONT;
const WIDTHS = new Map();

/** Pixels of a label, measured once. */
function widthOf(text) {
  if (!WIDTHS.has(text)) WIDTHS.set(text, RULER.measureText(text).width);
  return WIDTHS.get(text);
}

/** A text that fits so many pixels, with … where it was cut. */
function shortened(text, width) {
  if (widthOf(text) <= width) return text;
  let cut = text;
  while (cut.length > 1 && widthOf(`${cut}…`) > width) cut = cut.slice(0, -1);
  return `${cut}…`;
}

/** Makes a canvas of a pixel for each value. */
function paint(canvas, values, most) {
  const [rows, columns] = values.shape;
  canvas.width = columns;
  canvas.height = rows;
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(columns, rows);
  for (let i = 0; i < values.data.length; i++) {
    const colour = shade(values.data[i], most);
    for (let channel = 0; channel < 3; channel++) image.data[4 * i + channel] = colour[channel];
    image.data[4 * i + 3] = 255;
  }
  brush.putImageData(image, 0, 0);
}

const CELLS = document.createElement("canvas");

/** One head at a glance: cells without names. */
function thumbnail(values, size) {
  const [rows, columns] = values.shape;
  const canvas = make("canvas", { "aria-hidden": "true", class: "thumbnail" });
  paint(canvas, values, 1);
  const scale = size / Math.max(rows, columns);
  canvas.style.width = `${Math.max(12, columns * scale)}px`;
  canvas.style.height = `${Math.max(12, rows * scale)}px`;
  return canvas;
}
