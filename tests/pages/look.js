// What is to be seen of a page, as whoever opens it sees it; whoever unfolds all of it, if the first argument is true.
if (arguments[0]) for (const folded of document.querySelectorAll("details")) folded.open = true;
const width = document.documentElement.clientWidth;

function luminance([r, g, b]) {
  const part = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
}
const channels = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
}
const drawn = (box) => box.width > 0 && box.height > 0;
const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5;

// What lies in a part that is folded has a box in some versions of Chromium.
const isShown = (element) => element.checkVisibility({contentVisibilityAuto: true});
// A table's heads give way to their names in its cells on a narrow screen.
const isForEars = (element) => getComputedStyle(element.closest("thead") || element).clipPath !== "none";
const pixels = (element) => parseFloat(getComputedStyle(element).fontSize) * (element.closest("svg") ? element.getScreenCTM().a : 1);

const texts = [], faint = [], small = [], first = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement, text = node.textContent.trim();
  if (!text) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  if (!drawn(box) || !isShown(parent) || getComputedStyle(parent).visibility !== "visible" || isForEars(parent)) continue;
  texts.push(text);
  if (box.right <= width + 0.5 && box.bottom <= window.innerHeight) first.push(text);
  if (pixels(parent) < 11.5) small.push(`${text}: ${pixels(parent).toFixed(1)} pixels`);
  const style = getComputedStyle(parent);
  const colour = channels(parent.closest("svg") ? style.fill : style.color);
  if (contrast(colour, behind(parent)) < 4.5) faint.push(`${text}: ${colour} on ${behind(parent)}`);
}

// What scrolls inside of its own box may be wider than the page.
const wide = [...document.body.querySelectorAll("*")]
  .filter((element) => isShown(element) && !element.closest(".scroll > *, pre > *, svg *"))
  .filter((element) => { const box = element.getBoundingClientRect(); return drawn(box) && (box.right > width + 0.5 || box.left < -0.5); })
  .map((element) => element.outerHTML.slice(0, 120));

// Findings are read without scrolling to the side.
const beyond = [...document.querySelectorAll(".badge")].filter(isShown)
  .filter((badge) => badge.getBoundingClientRect().right > width + 0.5).map((badge) => badge.textContent);

const shownCharts = [...document.querySelectorAll("svg")].filter(isShown);
// How much of its part a row of charts, or a table below them, fills from left to right.
const filled = [...document.querySelectorAll("section")].map((part) => {
  const room = part.getBoundingClientRect(), inside = parseFloat(getComputedStyle(part).paddingLeft);
  const ends = [...part.querySelectorAll("figure svg, table, .columns > li")].filter(isShown).map((one) => one.getBoundingClientRect().right);
  return ends.length ? (Math.max(...ends) - room.left - inside) / (room.width - 2 * inside) : 1;
});

const crowded = [];
for (const svg of shownCharts) {
  const labels = [...svg.querySelectorAll("text")].map((label) => [label.textContent, label.getBoundingClientRect()]);
  const frame = svg.getBoundingClientRect();
  labels.forEach(([text, box], n) => {
    if (box.left < frame.left - 4 || box.right > frame.right + 4) crowded.push(`${svg.ariaLabel}: ${text} is cut off`);
    for (const [other, place] of labels.slice(n + 1)) if (overlap(box, place)) crowded.push(`${svg.ariaLabel}: ${text} on ${other}`);
  });
}

return {
  text: texts.join("\n"),
  first: first.join("\n"),
  height: document.documentElement.scrollHeight,
  faint, small, wide, beyond, crowded, filled,
  pageWidth: document.documentElement.scrollWidth,
  isDark: luminance(behind(document.body)) < 0.2,
  scripts: document.scripts.length,
  loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
  headings: [...document.querySelectorAll("h1, h2, h3, h4")].map((heading) => Number(heading.tagName[1])),
  charts: shownCharts.map((svg) => ({label: svg.getAttribute("aria-label"), role: svg.getAttribute("role"),
    size: [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height],
    marks: [...svg.querySelectorAll("path, use")].filter((mark) => drawn(mark.getBoundingClientRect())).length})),
  tables: [...document.querySelectorAll("table")].map((table) => table.querySelectorAll("th[scope]").length),
  ids: [...document.querySelectorAll("[id]")].map((element) => element.id),
  targets: [...document.querySelectorAll('a[href^="#"]')].map((link) => link.getAttribute("href").slice(1)),
  links: [...document.querySelectorAll('a[href]:not([href^="#"])')].map((link) => link.getAttribute("href")),
};
