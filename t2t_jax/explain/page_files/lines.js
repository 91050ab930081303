// Who looks at whom: tokens on two sides, lines between them, a colour a head.

const LINE_HEIGHT = 26;

/**
 * queries, keys: names of tokens. heads: [{number, weights}], weights a matrix of queries and keys.
 * pinned: the query whose lines alone are shown, or null. onpin(place or null).
 */
function attentionLines(queries, keys, heads, { words, pinned, onpin }) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const readout = make("output", { class: "readout", "aria-live": "polite" }, "\u00a0");
  const height = Math.max(queries.length, keys.length) * LINE_HEIGHT;
  let hovered = null;

  const left = roving(make("div", { class: "side", role: "group", "aria-label": words.looking },
    queries.map((name, place) => make("button", {
      type: "button", class: "word", "aria-pressed": String(pinned === place), "data-query": place, dir: "auto",
      onpointerenter: () => show(place), onfocus: () => show(place),
      onpointerleave: () => show(null), onblur: () => show(null),
      onclick: () => onpin(pinned === place ? null : place),
    }, name))));
  const right = make("div", { class: "side right", role: "list", "aria-label": words.looked_at },
    keys.map((name, place) => make("div", { class: "word", role: "listitem", "data-key": place },
      make("span", { class: "strips", "aria-hidden": "true" }, heads.map((head) => {
        const strip = make("i");
        strip.style.backgroundColor = headColour(head.number);
        return strip;
      })),
      make("span", { class: "name", dir: "auto" }, name))));
  const box = make("div", { class: "lines" }, left, make("div", { class: "between" }, canvas), right);
  box.style.setProperty("--line-height", `${LINE_HEIGHT}px`);

  function show(place) {
    hovered = place;
    draw();
  }

  function draw() {
    const query = hovered ?? pinned;
    const width = canvas.parentElement ? canvas.parentElement.clientWidth : 0;
    if (!width) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const brush = canvas.getContext("2d");
    brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const head of heads) {
      brush.strokeStyle = headColour(head.number);
      const offset = heads.length > 1 ? (heads.indexOf(head) / (heads.length - 1) - 0.5) * 8 : 0;
      for (let i = 0; i < queries.length; i++) {
        if (query !== null && i !== query) continue;
        for (let j = 0; j < keys.length; j++) {
          const weight = head.weights.data[i * keys.length + j];
          if (weight < 0.02) continue;
          brush.globalAlpha = Math.min(1, weight * (query === null ? 0.8 : 1));
          brush.lineWidth = 1 + 2.5 * weight;
          brush.beginPath();
          brush.moveTo(0, (i + 0.5) * LINE_HEIGHT);
          brush.lineTo(width, (j + 0.5) * LINE_HEIGHT + offset);
          brush.stroke();
        }
      }
    }
    brush.globalAlpha = 1;
    left.querySelectorAll("button").forEach((button, place) => button.classList.toggle("active", place === query));
    right.querySelectorAll(".word").forEach((word, place) => {
      word.querySelectorAll("i").forEach((strip, number) => {
        const weight = query === null ? 0 : heads[number].weights.data[query * keys.length + place];
        strip.style.opacity = String(weight);
      });
    });
    canvas.dataset.query = query === null ? "all" : String(query);
    if (query === null) {
      readout.textContent = "\u00a0";
    } else {
      const sum = new Float32Array(keys.length);
      for (const head of heads) for (let j = 0; j < keys.length; j++) sum[j] += head.weights.data[query * keys.length + j] / heads.length;
      const best = [...sum.keys()].sort((a, b) => sum[b] - sum[a]).slice(0, 3);
      readout.textContent = `${queries[query]} → ${best.map((j) => `${keys[j]} ${written(sum[j])}`).join(" · ")}`;
    }
  }

  return { element: make("div", {}, box, readout), draw };
}
