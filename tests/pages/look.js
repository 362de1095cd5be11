// What is to be seen of a page, as whoever opens it sees it.
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

const texts = [], faint = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement, text = node.textContent.trim();
  if (!text) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  if (!drawn(range.getBoundingClientRect()) || getComputedStyle(parent).visibility !== "visible") continue;
  texts.push(text);
  const style = getComputedStyle(parent);
  const colour = channels(parent.closest("svg") ? style.fill : style.color);
  if (contrast(colour, behind(parent)) < 4.5) faint.push(`${text}: ${colour} on ${behind(parent)}`);
}

// What scrolls inside of its own box may be wider than the page.
const wide = [...document.body.querySelectorAll("*")]
  .filter((element) => !element.closest(".scroll > *, pre > *, svg *"))
  .filter((element) => { const box = element.getBoundingClientRect(); return drawn(box) && (box.right > width + 0.5 || box.left < -0.5); })
  .map((element) => element.outerHTML.slice(0, 120));

const crowded = [];
for (const svg of document.querySelectorAll("svg")) {
  const labels = [...svg.querySelectorAll("text")].map((label) => [label.textContent, label.getBoundingClientRect()]);
  const frame = svg.getBoundingClientRect();
  labels.forEach(([text, box], n) => {
    if (box.left < frame.left - 4 || box.right > frame.right + 4) crowded.push(`${svg.ariaLabel}: ${text} is cut off`);
    for (const [other, place] of labels.slice(n + 1)) if (overlap(box, place)) crowded.push(`${svg.ariaLabel}: ${text} on ${other}`);
  });
}

return {
  text: texts.join("\n"),
  faint, wide, crowded,
  pageWidth: document.documentElement.scrollWidth,
  isDark: luminance(behind(document.body)) < 0.2,
  scripts: document.scripts.length,
  loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
  headings: [...document.querySelectorAll("h1, h2, h3, h4")].map((heading) => Number(heading.tagName[1])),
  charts: [...document.querySelectorAll("svg")].map((svg) => ({label: svg.getAttribute("aria-label"), role: svg.getAttribute("role"),
    size: [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height],
    marks: [...svg.querySelectorAll("path, use")].filter((mark) => drawn(mark.getBoundingClientRect())).length})),
  tables: [...document.querySelectorAll("table")].map((table) => table.querySelectorAll("th[scope]").length),
  ids: [...document.querySelectorAll("[id]")].map((element) => element.id),
  targets: [...document.querySelectorAll('a[href^="#"]')].map((link) => link.getAttribute("href").slice(1)),
  links: [...document.querySelectorAll('a[href]:not([href^="#"])')].map((link) => link.getAttribute("href")),
};
