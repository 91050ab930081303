// Children of one parent that lie upon each other, and texts that run out of their box: their names.
const found = [];
const name = (each) => `${each.tagName}.${each.className} ${each.textContent.slice(0, 30)}`;
const INLINE = ["SUB", "SUP", "OPTION", "B", "SPAN", "I"];
const stands = (each) =>
  each.id !== "bar" && each.getClientRects().length && !INLINE.includes(each.tagName)
  && !["absolute", "sticky"].includes(getComputedStyle(each).position);
for (const parent of document.querySelectorAll("main, main *:not(svg):not(svg *)")) {
  const children = [...parent.children].filter(stands);
  children.forEach((one, i) => children.slice(i + 1).forEach((other) => {
    const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > 1) found.push(`${name(one)} | ${name(other)}`);
  }));
}
const texts = "h1, h2, h3, main p, figcaption, label, .chips li";
for (const each of document.querySelectorAll(texts)) {
  if (each.clientWidth && each.scrollWidth > each.clientWidth + 1) found.push(`too wide: ${name(each)}`);
}
return found.slice(0, 5);
