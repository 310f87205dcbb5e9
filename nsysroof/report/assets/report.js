"use strict";
// What the page can do beyond being read: sort and filter the operators, and show tooltips at once.

function valueOf(row, column) {
  const cell = row.cells[column];
  if (!("v" in cell.dataset)) return cell.textContent;
  return cell.dataset.v === "" ? null : Number(cell.dataset.v);
}

// Numbers come largest first, text from A; what is not known comes last either way.
function compare(a, b, descending) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" ? a - b : a.localeCompare(b);
  return descending ? -order : order;
}

function sortBy(table, heading) {
  const column = heading.cellIndex;
  const rows = [...table.tBodies[0].rows];
  const numeric = rows.some((row) => "v" in row.cells[column].dataset);
  const before = heading.getAttribute("aria-sort");
  const first = numeric ? "descending" : "ascending";
  const second = numeric ? "ascending" : "descending";
  const order = before === first ? second : first;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const keyed = rows.map((row) => [valueOf(row, column), row]);
  keyed.sort((a, b) => compare(a[0], b[0], order === "descending"));
  table.tBodies[0].append(...keyed.map((pair) => pair[1]));
}

function makeSortable(table) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    button.addEventListener("click", () => sortBy(table, heading));
    heading.replaceChildren(button);
  }
}

function textOf(row) {
  const titles = [...row.querySelectorAll("[title]")].map((name) => name.title);
  return [row.textContent, ...titles].join(" ").toLowerCase();
}

function makeFilterable(table) {
  const bar = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("span");
  bar.className = "filter";
  input.type = "search";
  input.placeholder = "role, limiter or kernel";
  count.setAttribute("role", "status");
  bar.append("filter", input, count);
  const rows = [...table.tBodies[0].rows];
  const texts = new Map(rows.map((row) => [row, textOf(row)]));
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length}`;
  };
  input.addEventListener("input", apply);
  apply();
  table.parentElement.before(bar);
}

// A drawing's <title> shows late and never on a touch screen, so the script shows it itself.
function makeTooltips() {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  const texts = new Map();
  for (const title of document.querySelectorAll("svg title")) {
    texts.set(title.parentElement, title.textContent);
    title.parentElement.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  const show = (event) => {
    const text = texts.get(event.target);
    tip.hidden = text === undefined;
    if (tip.hidden) return;
    tip.textContent = text;
    const edge = window.scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(Math.min(event.pageX + 12, edge), 4)}px`;
    tip.style.top = `${event.pageY + 14}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
}

for (const table of document.querySelectorAll("table.sortable")) {
  makeSortable(table);
  makeFilterable(table);
}
makeTooltips();
