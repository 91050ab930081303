// The page: what is chosen, the bar to choose with, and the stages that follow it.

const DATA = JSON.parse(document.getElementById("data").textContent);
DATA.sentences = DATA.sentences.map((documents) => documents.map(unpackAll));

const chosen = {
  language: DATA.language, sentence: 0, looks: "encoder", layer: 0, head: 0, shown: "all", numbers: false,
  query: null, token: 0, step: 0, layout: "own", width: 0,
};

const documents = () => DATA.sentences[chosen.sentence];
const first = () => documents()[0];
const nameOf = (document_) => (document_.is_control ? DATA.words[chosen.language].control : document_.label);

function view(width) {
  return { ...chosen, width, words: DATA.words[chosen.language], choose };
}

/** Takes up a choice, shows what depends on it, and gives the focus back to who had it. */
function choose(change, focus) {
  const began = performance.now();
  const home = homeOfFocus();
  const old = { ...chosen };
  Object.assign(chosen, change);
  if (chosen.looks !== old.looks) Object.assign(chosen, { layer: 0, query: null });
  tidy();
  const anew = change.language !== undefined || change.sentence !== undefined;
  if (anew) showPage();
  else {
    const changed = Object.keys(change).filter((name) => change[name] !== old[name]);
    const depends = (name) => STAGES[name].on.some((each) => changed.includes(each));
    show(DATA.stages.map((stage) => stage.name).filter(depends));
  }
  if (focus) {
    const again = document.querySelector(`${home} ${focus}`) || document.querySelector(focus);
    if (again) { again.tabIndex = 0; again.focus({ preventScroll: true }); }
  }
  document.documentElement.dataset.took = String(performance.now() - began);
}

/** A selector of what is not drawn anew: the bar, or the place of a document in a stage. */
function homeOfFocus() {
  const section = focusIn.closest("section");
  const place = focusIn.closest("[data-document]");
  return section && place ? `#${section.id} [data-document="${place.dataset.document}"]` : "#bar";
}

let focusIn = document.documentElement;
document.addEventListener("focusin", (event) => { focusIn = event.target; });
document.addEventListener("pointerdown", (event) => { focusIn = event.target; }, true);

/** Keeps what is chosen within what one of the models has. */
function tidy() {
  const kinds = kindsOfAttention();
  if (!kinds.includes(chosen.looks)) chosen.looks = kinds[0] || "encoder";
  chosen.layer = Math.max(0, Math.min(chosen.layer, attentionsToChoose(chosen.looks).length - 1));
  chosen.head = Math.max(0, Math.min(chosen.head, headsToChoose() - 1));
  if (chosen.shown !== "all") chosen.shown = chosen.shown.filter((head) => head < headsToChoose());
  chosen.step = Math.max(0, Math.min(chosen.step, mostOf((document_) => document_.steps.length) - 1));
}

const mostOf = (number) => Math.max(...documents().map(number));

function kindsOfAttention() {
  return ["encoder", "decoder", "cross", "pooling"].filter((looks) => attentionsToChoose(looks).length);
}

/** Those of the model that has most of them. */
function attentionsToChoose(looks) {
  const found = documents().map((document_) => attentionsOf(document_, looks));
  return found.reduce((one, other) => (other.length > one.length ? other : one));
}

function headsToChoose() {
  return mostOf((document_) => chosenAttention(document_, chosen)?.weights.shape[0] ?? 0);
}

function chooser(label, id, options, value, onchange) {
  return make("label", {}, `${label} `, make("select", { id, onchange: (event) => onchange(event.target.value) },
    options.map(([name, text]) => make("option", { value: name, selected: String(name) === String(value) }, text))));
}

function showBar() {
  const words = DATA.words[chosen.language];
  const attentions = attentionsToChoose(chosen.looks);
  const several = attentions.some((each) => each.number > 0);
  const parts = [];
  if (DATA.sentences.length > 1) {
    parts.push(chooser(words.sentence, "sentence", DATA.sentences.map(([each], i) => [i, `${i + 1}: ${each.text.slice(0, 40)}`]), chosen.sentence, (value) => choose({ sentence: Number(value) }, "#sentence")));
  }
  if (attentions.length) {
    parts.push(
      chooser(words.attention, "looks", kindsOfAttention().map((looks) => [looks, words[looks]]), chosen.looks, (value) => choose({ looks: value, layer: 0 }, "#looks")),
      chooser(words.layer, "layer", attentions.map((each, i) => [i, layerName(each, several)]), chosen.layer, (value) => choose({ layer: Number(value) }, "#layer")),
      chooser(words.head, "head", [...Array(headsToChoose()).keys()].map((head) => [head, String(head + 1)]), chosen.head, (value) => choose({ head: Number(value), shown: [Number(value)] }, "#head")),
      make("label", {}, make("input", { type: "checkbox", id: "numbers", checked: chosen.numbers, onchange: (event) => choose({ numbers: event.target.checked }, "#numbers") }), ` ${words.numbers}`));
  }
  parts.push(chooser(words.language, "language", [["en", "English"], ["de", "Deutsch"]], chosen.language, (value) => choose({ language: value }, "#language")));
  document.getElementById("bar").replaceChildren(...parts);
}

/** Draws the bar and stages anew. What is measured comes first and last: each change in between spoils the layout. */
function show(names) {
  const boxes = names.flatMap((name) => documents().map((document_, place) => {
    const box = document.querySelector(`#stage-${name} [data-document="${place}"] .shown`);
    return box && { name, document_, box, height: box.offsetHeight, width: box.clientWidth };
  })).filter(Boolean);
  showBar();
  const drawings = boxes.map(({ name, document_, box, height, width }) => {
    box.style.minHeight = `${height}px`; // the page does not jump while it is drawn anew
    reuse(box);
    const now = view(Math.max(240, width));
    const found = isPartOf(name, document_) ? STAGES[name].show(document_, now) : [make("p", {}, now.words[document_.is_control ? "not_searched" : "nothing_there"])];
    const { parts, after } = Array.isArray(found) ? { parts: found, after: null } : found;
    fill(box, parts.filter(Boolean));
    return after;
  });
  for (const draw of drawings) if (draw) draw();
  for (const { box } of boxes) box.style.minHeight = "";
}

/** Draws a box anew but for its slider, which may be being dragged: off the page it is let go of. */
function fill(box, parts) {
  const kept = box.querySelector(".slider");
  const place = parts.findIndex((each) => each.className === "slider");
  if (!kept || place < 0) {
    box.replaceChildren(...parts);
    return;
  }
  const [input, now] = [kept, parts[place]].map((each) => each.querySelector("input"));
  input.value = now.value;
  input.setAttribute("aria-valuetext", now.getAttribute("aria-valuetext"));
  kept.querySelector("output").replaceWith(parts[place].querySelector("output"));
  for (const each of [...box.children]) if (each !== kept) each.remove();
  kept.before(...parts.slice(0, place));
  kept.after(...parts.slice(place + 1));
}

/** Whether a model has something to show in a stage. */
function isPartOf(name, document_) {
  const decoder = stackNamed(document_, "decoder");
  const is = (part) => document_.stacks.some(part);
  switch (name) {
    case "positions": return document_.facts.family !== "recurrent";
    case "attention": case "heads": return is((stack) => stack.attentions.length > 0);
    case "residual": return is((stack) => stack.sub_layers.length > 0);
    case "feed_forward": return is((stack) => stack.active !== null);
    case "steps": return decoder !== null;
    case "guesses": return decoder === null && document_.steps.length > 0;
    case "classes": return document_.classes.length > 0;
    case "search": return document_.searches.length > 0;
    default: return true;
  }
}

function stagesOfPage() {
  return DATA.stages.filter((stage) => documents().some((document_) => isPartOf(stage.name, document_)));
}

function showPage() {
  const words = DATA.words[chosen.language];
  const stages = stagesOfPage();
  document.documentElement.lang = chosen.language;
  document.title = `${words.title}: ${first().text.slice(0, 60)}`;
  document.getElementById("title").textContent = words.title;
  document.getElementById("about").replaceChildren(...documents().map((document_) => make("p", {},
    make("b", {}, nameOf(document_)), ": ", Object.entries(document_.facts).map(([name, value]) => `${name}=${typeof value === "number" ? value.toLocaleString(chosen.language) : value}`).join(", "))));
  document.getElementById("contents").replaceChildren(make("ol", {}, stages.map((stage) => make("li", {}, make("a", { href: `#stage-${stage.name}` }, stage.title[chosen.language])))));
  document.getElementById("contents").setAttribute("aria-label", words.contents);
  document.getElementById("stages").replaceChildren(...stages.map((stage) => make("section", { id: `stage-${stage.name}`, "aria-labelledby": `title-${stage.name}` },
    make("h2", { id: `title-${stage.name}` }, stage.title[chosen.language]),
    make("p", { class: "equation" }, `${words.equation}: `, formula(stage.equation)),
    make("p", { class: "text" }, formula(stage.text[chosen.language])),
    make("div", { class: documents().length > 1 ? "documents several" : "documents" }, documents().map((document_, place) => make("div", { "data-document": place },
      documents().length > 1 ? make("h3", {}, nameOf(document_)) : null,
      make("div", { class: "shown" })))))));
  show(stages.map((stage) => stage.name));
}

let width = document.documentElement.clientWidth;
let waiting = 0;
window.addEventListener("resize", () => {
  if (document.documentElement.clientWidth === width) return; // a phone's bar that comes and goes
  width = document.documentElement.clientWidth;
  clearTimeout(waiting);
  waiting = setTimeout(showPage, 150);
});
DARK.addEventListener("change", showPage);

tidy();
showPage();
document.documentElement.dataset.ready = "yes";
