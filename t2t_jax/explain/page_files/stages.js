// What each stage shows of a document. `view` holds what is chosen, and the words of the language.

const pieces = (tokens) => tokens.map((token) => token.piece);

const stackNamed = (document_, name) => document_.stacks.find((stack) => stack.name === name) || null;

/** The stack that the chosen attention reads with its keys. */
function chosenStack(document_, view) {
  return stackNamed(document_, view.looks === "decoder" ? "decoder" : "encoder") || document_.stacks[0];
}

function attentionsOf(document_, looks) {
  return document_.stacks.flatMap((stack) => stack.attentions).filter((each) => each.looks === looks);
}

/** The chosen attention, or the nearest that this model has. */
function chosenAttention(document_, view) {
  const all = attentionsOf(document_, view.looks);
  return all[Math.min(view.layer, all.length - 1)] || null;
}

/** The attention of this kind in the chosen layer, or in the nearest that has one. */
function sameLayer(document_, view, looks) {
  if (looks === view.looks) return chosenAttention(document_, view);
  const all = attentionsOf(document_, looks);
  const layer = chosenAttention(document_, view)?.layer ?? 0;
  return all.find((each) => each.layer >= layer) || all.at(-1) || null;
}

const chosenHead = (attention, view) => Math.min(view.head, attention.weights.shape[0] - 1);

/** Names of who looks and of who is looked at. */
function sidesOf(document_, attention) {
  const encoder = stackNamed(document_, "encoder");
  const decoder = stackNamed(document_, "decoder");
  if (attention.looks === "encoder") return [pieces(encoder.tokens), pieces(encoder.tokens)];
  if (attention.looks === "decoder") return [pieces(decoder.tokens), pieces(decoder.tokens)];
  if (attention.looks === "cross") return [pieces(decoder.tokens), pieces(encoder.tokens)];
  return [["query"], pieces(encoder.tokens)];
}

/** What a layer is called, where layers may have several self-attentions. */
function layerName(attention, several) {
  return `${attention.layer + 1}${several ? "abcdefgh"[attention.number] : ""}`;
}

function chips(title, tokens) {
  return make("div", { class: "side-of-text" }, make("h4", {}, title),
    make("ol", { class: "chips" }, tokens.map((token) => make("li", {},
      make("b", { dir: "auto" }, token.piece), make("span", {}, String(token.id))))));
}

const STAGES = {};

STAGES.text = {
  on: [],
  show(document_, view) {
    const { words } = view;
    const encoder = stackNamed(document_, "encoder");
    const decoder = stackNamed(document_, "decoder");
    return [
      make("p", { class: "quote", dir: "auto" }, document_.text),
      encoder && chips(words.source, encoder.tokens),
      decoder && chips(words.inputs, decoder.tokens),
      decoder && chips(words.outputs, document_.steps.map((step) => step.chosen.token)),
      document_.output && make("p", { class: "quote", dir: "auto" }, `${words.output}: ${document_.output}`),
    ];
  },
};

STAGES.embedding = {
  on: ["looks", "token"],
  show(document_, view) {
    const { words } = view;
    const stack = chosenStack(document_, view);
    const place = Math.min(view.token, stack.tokens.length - 1);
    const buttons = stack.tokens.map((token, other) => make("button", {
      type: "button", class: "word", dir: "auto", "aria-pressed": String(other === place),
      onclick: () => view.choose({ token: other }, `[data-token="${other}"]`), "data-token": other,
    }, token.piece));
    const near = stack.neighbours[place];
    return [
      heatMap(stack.embedding, {
        name: "embedding", title: `${words[stack.name]}: ${words.vectors}`, rows: pieces(stack.tokens), flat: true, width: view.width,
      }),
      make("h4", {}, words.neighbours),
      roving(make("div", { class: "words", role: "group", "aria-label": words.token }, buttons)),
      make("div", { class: "beside" },
        table([words.token, words.cosine], near.map((each) => [make("span", { dir: "auto" }, each.token.piece), bar(each.cosine, 1)]), { class: "near" }),
        make("figure", { class: "map" }, make("figcaption", {}, words.map), scatter(stack.map, stack.tokens[place].id, view))),
    ];
  },
};

/** Pieces as points of a plane. */
function scatter(places, chosen, view) {
  const width = Math.min(760, view.width);
  const height = Math.round(width * (width > 520 ? 0.5 : 0.7));
  const of = (name) => places.map((place) => place[name]);
  const scale = (name, from, to) => {
    const low = Math.min(...of(name));
    const span = Math.max(...of(name)) - low || 1;
    return (value) => from + ((value - low) / span) * (to - from);
  };
  const [x, y] = [scale("x", 14, width - 90), scale("y", height - 14, 16)];
  const drawn = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": view.words.map, class: "scatter" });
  const taken = [];
  for (const place of [...places].sort((a, b) => Number(b.is_of_text) - Number(a.is_of_text))) {
    const [left, low] = [x(place.x), y(place.y)];
    const is = place.token.id === chosen;
    const kind = is ? "chosen" : place.is_of_text ? "of-text" : "other";
    drawn.append(make("circle", { cx: left, cy: low, r: is ? 5 : 3, class: kind }, make("title", {}, place.token.piece)));
    const length = 8 + 7 * place.token.piece.length;
    const sides = [left, left - length].map((from) => ({ left: from, right: from + length, top: low - 7, bottom: low + 7 }));
    const free = sides.find((room) => room.left >= 0 && !taken.some((other) =>
      room.left < other.right && other.left < room.right && room.top < other.bottom && other.top < room.bottom));
    if (!free && !is) continue;
    const room = free || sides[0];
    taken.push(room);
    drawn.append(make("text", { x: room.left < left ? left - 7 : left + 7, y: low + 4, class: kind, "text-anchor": room.left < left ? "end" : "start" }, place.token.piece));
  }
  return make("div", { class: "scroll" }, drawn);
}

/** A number with a bar as long as its share of `most`. */
function bar(value, most, text) {
  const fill = make("i", { class: value < 0 ? "negative" : "" });
  fill.style.width = `${Math.round(100 * Math.min(1, Math.abs(value) / (most || 1)))}%`;
  return make("span", { class: "bar" }, make("span", { class: "track" }, fill), make("span", { class: "value" }, text ?? written(value)));
}

STAGES.positions = {
  get on() { // heads differ only where something is added to their scores
    const has = documents().some((document_) => document_.stacks.some((stack) => stack.positions && stack.positions.bias));
    return has ? ["looks", "layout", "head"] : ["looks", "layout"];
  },
  show(document_, view) {
    const { words } = view;
    const stack = chosenStack(document_, view);
    const layouts = Object.keys(document_.layouts);
    const own = stack.positions;
    const select = make("select", { onchange: (event) => view.choose({ layout: event.target.value }, "[data-layout]"), "data-layout": true },
      ["own", ...layouts].map((name) => make("option", { value: name, selected: view.layout === name },
        name === "own" ? `${words.own_layout}${own ? ` (${words[own.kind]})` : ""}` : words[name])));
    const parts = [make("p", {}, make("label", {}, `${words.layout} `, select))];
    const shown = view.layout === "own" ? own : { kind: view.layout, vectors: document_.layouts[view.layout], likeness: null, bias: null };
    if (!shown || (!shown.vectors && !shown.likeness && !shown.bias)) return [...parts, make("p", {}, words.no_positions)];
    if (shown.vectors) {
      parts.push(heatMap(shown.vectors, { name: "positions", title: words.positions_map, flat: true, width: view.width, cell: 9 }));
      parts.push(make("figure", { class: "map" }, make("figcaption", {}, words.waves), waves(shown.vectors, view)));
    }
    const likeness = shown.likeness || (shown.vectors && cosineMatrix(shown.vectors));
    if (likeness) {
      const title = shown.kind === "rotary" ? words.likeness_rotary : words.likeness;
      parts.push(make("div", { class: "beside" },
        heatMap(likeness, { name: "likeness", title, cell: 9, most: 1 }),
        make("figure", { class: "map" }, make("figcaption", {}, words.by_distance), byDistance(likeness, view))));
    }
    if (shown.bias) {
      const head = Math.min(view.head, shown.bias.shape[0] - 1);
      const bias = part(shown.bias, head);
      parts.push(make("div", { class: "beside" },
        heatMap(bias, { name: "bias", title: `${words.bias}, ${words.head} ${head + 1}`, cell: 9 }),
        make("figure", { class: "map" }, make("figcaption", {}, words.by_distance), byDistance(bias, view))));
    }
    return parts;
  },
};

function cosineMatrix(x) {
  const [rows, columns] = x.shape;
  const length = (i) => Math.hypot(...part(x, i).data) || 1;
  return matrix(rows, rows, (i, j) => {
    let sum = 0;
    for (let k = 0; k < columns; k++) sum += x.data[i * columns + k] * x.data[j * columns + k];
    return sum / length(i) / length(j);
  });
}

/** Curves over a line of whole numbers. */
function curves(lines, first, view, label) {
  const width = Math.min(560, view.width);
  const [height, left, low] = [190, 44, 26];
  const all = lines.flatMap((line) => line.values);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const count = lines[0].values.length;
  const x = (i) => left + (i / Math.max(1, count - 1)) * (width - left - 34);
  const y = (value) => height - low - ((value - least) / (most - least || 1)) * (height - low - 12);
  const drawn = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, class: "curves" },
    make("line", { x1: left, x2: width - 30, y1: height - low, y2: height - low, class: "axis" }),
    make("line", { x1: left, x2: left, y1: 6, y2: height - low, class: "axis" }),
    [least, most].map((value) => make("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, written(value, 2))),
    [0, Math.floor((count - 1) / 2), count - 1].map((i) => make("text", { x: x(i), y: height - low + 14, "text-anchor": "middle" }, String(first + i))),
    make("text", { x: width - 30, y: height - 1, "text-anchor": "end" }, label));
  lines.forEach((line, number) => {
    const path = line.values.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const curve = make("path", { d: path, fill: "none", "stroke-width": 2, "stroke-dasharray": ["", "6 3", "2 2", "8 2 2 2"][number % 4] });
    curve.style.stroke = headColour(number);
    drawn.append(curve);
  });
  // Names at the ends of the lines, apart from one another.
  let free = height - low;
  for (const line of lines.filter((each) => each.name).sort((a, b) => a.values[count - 1] - b.values[count - 1])) {
    free = Math.min(free, y(line.values[count - 1]) + 4);
    drawn.append(make("text", { x: width - 30, y: free, class: "name" }, line.name));
    free -= 12;
  }
  return make("div", { class: "scroll" }, drawn);
}

function waves(vectors, view) {
  const [rows, columns] = vectors.shape;
  const chosen = [...new Set([0, Math.floor(columns / 8), Math.floor(columns / 4), columns - 2].filter((column) => column >= 0))];
  return curves(chosen.map((column) => ({
    name: String(column), values: Array.from({ length: rows }, (_, i) => vectors.data[i * columns + column]),
  })), 0, view, view.words.position);
}

/** The mean over all pairs that are so far apart, the second before the first and after it alike. */
function byDistance(square, view) {
  const size = square.shape[0];
  const half = (sign) => Array.from({ length: size }, (_, distance) => {
    let sum = 0;
    for (let i = 0; i + distance < size; i++) sum += square.data[sign > 0 ? i * size + i + distance : (i + distance) * size + i];
    return sum / (size - distance);
  });
  const [after, before] = [half(1), half(-1)];
  const alike = after.every((value, i) => Math.abs(value - before[i]) < 1e-4);
  return curves(alike ? [{ name: "", values: before }] : [{ name: "−", values: before }, { name: "+", values: after }], 0, view, view.words.distance);
}

/** Whether query i may look at key j. */
const mayLook = (attention, i, j) => attention.mask.data[i * attention.mask.shape[1] + j] > 0;

STAGES.attention = {
  on: ["looks", "layer", "head", "numbers"],
  show(document_, view) {
    const { words } = view;
    const attention = chosenAttention(document_, view);
    if (!attention) return [make("p", {}, words.nothing_there)];
    const head = chosenHead(attention, view);
    const [queries, keys] = sidesOf(document_, attention);
    const named = { rows: queries, columns: keys, numbers: view.numbers };
    const weights = part(attention.weights, head);
    const [rows, columns] = weights.shape;
    const maps = [];
    const query = part(attention.query, head);
    const key = part(attention.key, head);
    const width = view.width > 800 ? view.width / 2 - 24 : view.width;
    maps.push(heatMap(query, { name: "query", title: words.query, rows: queries, flat: true, width }));
    maps.push(heatMap(key, { name: "key", title: words.key, rows: keys, flat: true, width }));
    const scaled = part(attention.scores, head);
    const root = Math.sqrt(query.shape[1]);
    const divisor = attention.divisor;
    const said = Math.abs(divisor - root) < 1e-6 ? `√d_{k} = ${written(divisor, 2)}` : written(divisor, 2);
    maps.push(heatMap(matrix(rows, columns, (i, j) => scaled.data[i * columns + j] * divisor), { ...named, name: "raw", title: words.raw }));
    maps.push(heatMap(scaled, { ...named, name: "scaled", title: words.divided.replace("{}", said) }));
    if (attention.bias) {
      const bias = part(attention.bias, Math.min(head, attention.bias.shape[0] - 1));
      maps.push(heatMap(bias, { ...named, name: "bias", title: words.bias }));
    }
    maps.push(heatMap(matrix(rows, columns, (i, j) => (mayLook(attention, i, j) ? 1 : NaN)), { ...named, name: "mask", title: words.mask, digits: 0, most: 1 }));
    maps.push(heatMap(weights, { ...named, name: "weights", title: words.weights, most: 1, digits: view.numbers ? 2 : 3 }));
    return [make("p", { class: "hint" }, words.hint_cells), make("div", { class: "maps" }, maps)];
  },
};

STAGES.heads = {
  on: ["looks", "layer", "head", "shown", "query"],
  show(document_, view) {
    const { words } = view;
    const attention = chosenAttention(document_, view);
    if (!attention) return [make("p", {}, words.nothing_there)];
    const [queries, keys] = sidesOf(document_, attention);
    const count = attention.weights.shape[0];
    const all = [...Array(count).keys()];
    const chosen = all.filter((head) => view.shown === "all" || view.shown.includes(head));
    // Heads that only the other model has: this one shows its nearest, as the other stages do.
    const shown = chosen.length || !view.shown.length ? chosen : [chosenHead(attention, view)];
    const heads = shown.map((number) => ({ number, weights: part(attention.weights, number) }));
    const boxes = all.map((head) => {
      const swatch = make("i", { class: "swatch", "aria-hidden": "true" });
      swatch.style.backgroundColor = headColour(head);
      return make("label", { class: "head" },
        make("input", { type: "checkbox", checked: shown.includes(head), "data-head": head, onchange: (event) => {
          const now = event.target.checked ? [...shown, head] : shown.filter((other) => other !== head);
          view.choose({ shown: now.length === count ? "all" : now }, `[data-head="${head}"]`);
        } }), swatch, String(head + 1));
    });
    const lines = attentionLines(queries, keys, heads, {
      words, pinned: view.query !== null && view.query < queries.length ? view.query : null,
      onpin: (place) => view.choose({ query: place }, place === null ? null : `[data-query="${place}"]`),
    });
    const thumbnails = all.map((head) => make("button", {
      type: "button", class: "one-head", "aria-pressed": String(head === chosenHead(attention, view)), "data-thumbnail": head,
      "aria-label": `${words.head} ${head + 1}`, onclick: () => view.choose({ head, shown: [head] }, `[data-thumbnail="${head}"]`),
    }, thumbnail(part(attention.weights, head), 96), make("span", {}, `${words.head} ${head + 1}`)));
    return {
      parts: [
        make("div", { class: "toggles", role: "group", "aria-label": words.shown_heads }, make("span", {}, `${words.shown_heads}:`), boxes,
          make("button", { type: "button", "data-all": true, "aria-pressed": String(view.shown === "all"), onclick: () => view.choose({ shown: "all" }, "[data-all]") }, words.all_heads)),
        lines.element,
        make("div", { class: "thumbnails" }, thumbnails),
      ],
      after: lines.draw,
    };
  },
};

STAGES.residual = {
  on: ["looks", "numbers"],
  show(document_, view) {
    const { words } = view;
    const name = view.looks === "encoder" || view.looks === "pooling" ? "encoder" : "decoder";
    const stack = stackNamed(document_, name) || document_.stacks[0];
    const layers = stack.sub_layers;
    const rows = layers.map((each) => `${each.layer + 1} ${words[each.name]}`);
    const columns = pieces(stack.tokens);
    const of = (value) => matrix(layers.length, columns.length, (i, j) => value(layers[i], j));
    return [make("div", { class: "maps" },
      heatMap(of((each, j) => (Math.acos(Math.max(-1, Math.min(1, each.cosine.data[j]))) * 180) / Math.PI), { name: "angle", title: `${words[stack.name]}: ${words.angle}`, rows, columns, digits: 1, numbers: view.numbers }),
      heatMap(of((each, j) => each.update.data[j] / (each.length.data[j] || 1)), { name: "share", title: `${words[stack.name]}: ${words.share}`, rows, columns, digits: 2, numbers: view.numbers }))];
  },
};
STAGES.feed_forward = {
  on: ["looks", "numbers"],
  show(document_, view) {
    const { words } = view;
    const name = view.looks === "encoder" || view.looks === "pooling" ? "encoder" : "decoder";
    const stack = stackNamed(document_, name) || document_.stacks[0];
    if (!stack.active) return [make("p", {}, words.nothing_there)];
    const rows = [...Array(stack.active.shape[0]).keys()].map((layer) => `${words.layer} ${layer + 1}`);
    return [heatMap(stack.active, { name: "active", title: `${words[stack.name]}: ${words.active}`, rows, columns: pieces(stack.tokens), most: 1, digits: 2, numbers: view.numbers })];
  },
};

STAGES.contexts = {
  on: ["looks", "layer", "head", "numbers"],
  show(document_, view) {
    const { words } = view;
    const attention = chosenAttention(document_, view);
    const maps = [];
    if (attention) {
      const head = chosenHead(attention, view);
      const [queries, keys] = sidesOf(document_, attention);
      const named = { numbers: view.numbers, most: 1 };
      maps.push(heatMap(part(attention.weights, head), { ...named, name: "weights", title: words.weights, rows: queries, columns: keys }));
      if (attention.context_cosine && queries.length > 1) {
        maps.push(heatMap(part(attention.context_cosine, head), { ...named, name: "context_cosine", title: words.context_cosine, rows: queries, columns: queries }));
      }
    }
    const stack = chosenStack(document_, view);
    const last = stack.cosine.shape[0] - 1;
    const isOfLast = view.looks === "cross" || view.looks === "pooling";
    const layer = isOfLast ? last : Math.min(last, (attention ? attention.layer : 0) + 1);
    const title = isOfLast ? words.memory_cosine : `${words[stack.name]}: ${words.state_cosine} ${layer}`;
    maps.push(heatMap(part(stack.cosine, layer), { numbers: view.numbers, most: 1, name: "state_cosine", title, rows: pieces(stack.tokens), columns: pieces(stack.tokens) }));
    return [make("div", { class: "maps" }, maps)];
  },
};

/** Tokens that are as strongly marked as they are looked at. */
function looked(title, attention, view, names, row) {
  const head = chosenHead(attention, view);
  const weights = part(attention.weights, head);
  const columns = weights.shape[1];
  return make("div", { class: "side-of-text" }, make("h4", {}, `${title} (${view.words.layer} ${attention.layer + 1}, ${view.words.head} ${head + 1})`),
    make("ol", { class: "chips looked", "data-looked": attention.looks }, names.map((name, j) => {
      const weight = weights.data[row * columns + j];
      const hidden = !mayLook(attention, row, j);
      const colour = shade(hidden ? NaN : weight, 1);
      const item = make("li", { class: hidden ? "hidden" : "" }, make("b", { dir: "auto" }, name), make("span", {}, hidden ? "–" : written(weight, 2)));
      item.style.backgroundColor = colour.css;
      item.style.color = inkOn(colour);
      return item;
    })));
}

function candidates(step, view) {
  const { words } = view;
  const rows = [...step.best];
  const at = rows.findIndex((each) => each.token.id === step.chosen.token.id);
  if (at < 0) rows.push(step.chosen);
  return scroll(words.next, table([words.token, words.id, words.logit, words.probability, ""], rows.map((each) => {
    const is = each.token.id === step.chosen.token.id;
    return {
      properties: { class: is ? "is-chosen" : "" },
      cells: [make("span", { dir: "auto" }, each.token.piece), String(each.token.id), written(each.logit, 2), bar(each.probability, 1), is ? `◂ ${step.is_given ? words.given : words.chosen}` : ""],
    };
  }), { class: "candidates" }));
}

function slider(document_, view, least = 0) {
  const { words } = view;
  const last = document_.steps.length - 1;
  const step = Math.min(view.step, last);
  const input = make("input", {
    type: "range", min: least, max: last, value: step, step: 1, "data-step": true, "aria-valuetext": `${step + 1}: ${document_.steps[step].chosen.token.piece}`,
    oninput: (event) => view.choose({ step: Number(event.target.value) }, "[data-step]"),
  });
  return make("p", { class: "slider" }, make("label", {}, `${words.step} `, input), make("output", {}, `${step + 1} / ${last + 1}`));
}

STAGES.steps = {
  on: ["layer", "head", "step"],
  show(document_, view) {
    const { words } = view;
    const decoder = stackNamed(document_, "decoder");
    const step = Math.min(view.step, document_.steps.length - 1);
    const parts = [slider(document_, view)];
    parts.push(chips(words.written, decoder.tokens.slice(0, step + 1)));
    for (const looks of ["decoder", "cross"]) {
      const attention = sameLayer(document_, view, looks);
      if (attention) parts.push(looked(looks === "cross" ? words.looks_across : words.looks_back, attention, view, sidesOf(document_, attention)[1], step));
    }
    parts.push(make("h4", {}, words.next), candidates(document_.steps[step], view));
    return parts;
  },
};

STAGES.guesses = {
  on: ["layer", "head", "step"],
  show(document_, view) {
    const { words } = view;
    const step = Math.min(view.step, document_.steps.length - 1);
    const parts = [slider(document_, view), make("p", { class: "quote", dir: "auto" }, `${words.hidden}: ${document_.steps[step].chosen.token.piece}`)];
    parts.push(candidates(document_.steps[step], view));
    return parts;
  },
};

STAGES.classes = {
  on: [],
  show(document_, view) {
    const { words } = view;
    const best = Math.max(...document_.classes.map((each) => each.probability));
    return [scroll(words.class, table([words.class, words.logit, words.probability], document_.classes.map((each) => ({
      properties: { class: each.probability === best ? "is-chosen" : "" },
      cells: [each.name, written(each.logit, 2), bar(each.probability, 1)],
    })), { class: "candidates" }))];
  },
};

STAGES.search = {
  on: [],
  show(document_, view) {
    const { words } = view;
    return document_.searches.map((search) => make("div", { class: "search", "data-search": search.name },
      make("h4", {}, search.name === "beam" ? `${words.beam} ${search.tree.beam_size}` : words.greedy),
      make("p", { class: "quote", dir: "auto" }, search.text),
      scroll(words[search.name], make("ul", { class: "tree" }, branches(search, -1, view)))));
  },
};

/** The branches that go on from a node; tokens that do not part are one branch. */
function branches(search, parent, view) {
  const { words } = view;
  const { nodes, best } = search.tree;
  const children = (place) => nodes.flatMap((node, child) => (node.parent === place ? [child] : []));
  const won = new Set();
  for (let place = best; place >= 0; place = nodes[place].parent) won.add(place);
  return children(parent).sort((a, b) => Number(won.has(b)) - Number(won.has(a)) || nodes[b].log_prob - nodes[a].log_prob).map((first) => {
    const run = [first];
    while (children(run.at(-1)).length === 1 && won.has(run.at(-1)) === won.has(children(run.at(-1))[0])) run.push(children(run.at(-1))[0]);
    const last = nodes[run.at(-1)];
    const facts = [`log\u00a0P\u00a0${written(last.log_prob, 2)}`];
    if (last.ending) facts.push(words[last.ending]);
    if (last.score !== null) facts.push(`${words.score} ${written(last.score, 3)}`);
    if (run.at(-1) === best) facts.push(`★ ${words.best}`);
    const following = branches(search, run.at(-1), view);
    return make("li", { class: won.has(first) ? "won" : "", "data-ending": last.ending || "" },
      make("span", { class: "run" },
        make("b", { dir: "auto" }, run.map((place) => search.pieces[place]).join(" ")), " ",
        make("span", { class: "facts" }, facts.join(" · "))),
      following.length ? make("ul", {}, following) : null);
  });
}
