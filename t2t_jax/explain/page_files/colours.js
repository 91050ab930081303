// Colours, safe for the colour-blind, by light and by dark.

const DARK = window.matchMedia("(prefers-color-scheme: dark)");

/** Okabe and Ito's, for heads; a head has its number beside its colour wherever it counts. */
const HEAD_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5CC9", "#8C6D31"];
const HEAD_COLOURS_DARK = ["#4DA6E0", "#FF8A3D", "#2FCFA0", "#E6A1C8", "#8FD3F7", "#F5B93B", "#B19CF0", "#CDB275"];

function headColour(head) {
  const colours = DARK.matches ? HEAD_COLOURS_DARK : HEAD_COLOURS;
  return colours[head % colours.length];
}

const SCALES = {
  light: { low: [244, 244, 242], high: [0, 62, 120], negative: [176, 74, 0], gone: [214, 214, 214] },
  dark: { low: [32, 35, 38], high: [160, 215, 255], negative: [255, 160, 90], gone: [70, 74, 78] },
};

const STEPS = 255;
const SHADES = Object.fromEntries(Object.entries(SCALES).map(([name, scale]) => {
  const towards = (end) => Array.from({ length: STEPS + 1 }, (_, step) =>
    named(scale.low.map((low, i) => Math.round(low + (step / STEPS) ** 0.8 * (end[i] - low)))));
  return [name, { positive: towards(scale.high), negative: towards(scale.negative), gone: named(scale.gone) }];
}));

/** A colour that knows its name, which takes longer to make than to use. */
function named(colour) {
  return Object.assign(colour, { css: `rgb(${colour.join(",")})` });
}

/** The colour of a number: from 0 to `most` by lightness, below 0 to another hue; NaN is masked. */
function shade(value, most) {
  const shades = DARK.matches ? SHADES.dark : SHADES.light;
  if (!Number.isFinite(value)) return shades.gone;
  const step = Math.round(STEPS * Math.min(1, Math.abs(value) / (most || 1)));
  return (value < 0 ? shades.negative : shades.positive)[step];
}

const CSS_COLOURS = new Map();

/** A colour of the style sheet, asked for once: each time it is, the browser first brings all styles up to date. */
function cssColour(name) {
  const key = `${name} ${DARK.matches}`;
  if (!CSS_COLOURS.has(key)) CSS_COLOURS.set(key, getComputedStyle(document.documentElement).getPropertyValue(name));
  return CSS_COLOURS.get(key);
}

/** Ink that can be read upon a colour. */
function inkOn([red, green, blue]) {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#111" : "#fff";
}
