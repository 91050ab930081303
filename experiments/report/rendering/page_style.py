"""The style of the HTML page. Colour never carries information alone."""

STYLE = """
:root {
  --ink: #1b1b1b; --quiet: #555; --paper: #fff; --line: #d5d5d5; --shade: #f4f4f2; --link: #0b57a4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e6e6; --quiet: #a8a8a8; --paper: #16181a; --line: #3a3d40; --shade: #202326;
    --link: #8ab8ff;
  }
}
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 100rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1.25rem; }
h2 { font-size: 1.2rem; margin: 3rem 0 0.75rem; }
h3 { font-size: 1rem; margin: 1.75rem 0 0.4rem; }
a { color: var(--link); }
ul { margin: 0; padding-left: 1.2rem; max-width: 60rem; }
li { color: var(--quiet); overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 600; margin: 1.75rem 0 0.4rem; }
caption { text-align: left; color: var(--quiet); padding: 0.6rem 0 0.2rem; }
.sample { width: 100%; max-width: 60rem; border-bottom-width: 1px; }
.sample th { width: 9rem; font-weight: 600; vertical-align: top; white-space: normal; }
.sample td.text:not(.wide):not(.narrow) { overflow-wrap: anywhere; min-width: 10rem; }
.narrow { display: none; }
.hint { color: var(--quiet); font-size: 14px; margin: 0 0 0.4rem; }
/* A shade at the right edge, which the end of the table covers. */
.scroll { overflow-x: auto; background:
  linear-gradient(var(--paper) 0 0) right / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--quiet), transparent) right / 1rem 100% no-repeat scroll; }
/* A bar to scroll by that is always there. */
.scroll::-webkit-scrollbar { height: 9px; }
.scroll::-webkit-scrollbar-thumb { background: var(--quiet); border-radius: 5px; }
table { border-collapse: collapse; font-size: 13px; line-height: 1.35;
  font-variant-numeric: tabular-nums; border-bottom: 2px solid var(--ink); }
th, td { padding: 0.28rem 0.5rem; text-align: right; white-space: nowrap; font-weight: normal; }
thead th { border-top: 2px solid var(--ink); border-bottom: 1px solid var(--ink);
  vertical-align: bottom; font-weight: 600; white-space: normal; }
thead th:first-child, th[scope=row], .text { text-align: left; }
td.text { white-space: normal; min-width: 10rem; }
td.text:not(.wide):not(.narrow) { min-width: 17rem; }
th[scope=row] { font-weight: 600; }
th:first-child { position: sticky; left: 0; background: var(--paper); }
tbody + tbody tr:first-child > * { border-top: 1px solid var(--line); }
tbody tr:hover > * { background: var(--shade); }
.mark { display: inline-block; width: 0.7em; text-align: left; padding-left: 0.15em; }
sup { line-height: 0; }
figure { margin: 2rem 0 0; max-width: 50rem; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; background: #fff;
  border-radius: 4px; }
figcaption { color: var(--quiet); font-size: 14px; max-width: 60rem; margin-top: 0.4rem; }
pre { background: var(--shade); padding: 0.75rem 1rem; border-radius: 4px; overflow-x: auto;
  font-size: 13px; white-space: pre-wrap; }
pre span { white-space: nowrap; }
@media screen and (max-width: 40rem) {
  main { padding: 1rem 0.75rem 3rem; }
  .wide { display: none; }
  p.narrow, h3.narrow { display: block; }
  td.narrow, th.narrow { display: table-cell; }
  td.narrow { white-space: nowrap; }
  table { font-size: 12px; }
  th, td { padding: 0.28rem 0.2rem; }
  th[scope=row] { white-space: normal; overflow-wrap: anywhere; min-width: 5.5rem; }
  .sample th { width: 6rem; }
}
@media print {
  @page { size: landscape; margin: 12mm; }
  :root { --ink: #000; --quiet: #333; --paper: #fff; --line: #bbb; --shade: #f4f4f4; --link: #000; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; }
  .hint { display: none; }
  table { font-size: 7pt; }
  th, td { padding: 0.1rem 0.25rem; }
  td.text { min-width: 0; }
  td.text:not(.wide):not(.narrow) { min-width: 9rem; }
  th:first-child { position: static; }
  thead { display: table-header-group; }
  tr { break-inside: avoid; }
}
"""
