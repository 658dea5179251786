"use strict";
// What the page stands on: elements, numbers in words, sortable tables, the theme, the tabs.

const NONE = "–";
const MARKS = { "+": ["better", "▲"], "-": ["worse", "▼"] };

/** Return an element; text given as a child stays text, whatever it holds. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

function number(value, digits = 4) {
  if (value == null) return NONE;
  return (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
}

function signed(value, digits = 4) {
  return (value > 0 ? "+" : "") + number(value, digits);
}

function short(value) {
  return value == null ? NONE : String(Number(value.toPrecision(3))).replace("-", "−");
}

function capitalized(word) {
  return word[0].toUpperCase() + word.slice(1);
}

function percent(value) {
  if (value == null) return NONE;
  const shown = 100 * value;
  if (shown > 0 && shown < 1) return "< 1 %";
  return shown > 99 && shown < 100 ? "> 99 %" : `${shown.toFixed(0)} %`;
}

function probability(value) {
  return value == null ? NONE : value < 0.0001 ? "< 0.0001" : value.toFixed(4);
}

function interval(low, high) {
  return low == null || high == null ? "" : `[${number(low)}, ${number(high)}]`;
}

function markOf(mark) {
  return mark in MARKS ? MARKS[mark][1] : "";
}

function marked(text, mark, than = "the baseline") {
  const [word, sign] = MARKS[mark] || ["", ""];
  const spoken = word && el("span", { class: "spoken" }, ` ${word} than ${than}`);
  return [text, el("span", { class: `mark ${word}` }, sign, spoken)];
}

function swatch(model) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [name, value] of [["class", "swatch"], ["viewBox", "-1.5 -1.5 3 3"], ["aria-hidden", "true"], ["style", `--c:${model.colour}`]])
    svg.setAttribute(name, value);
  path.setAttribute("d", model.shape);
  svg.append(path);
  return svg;
}

/**
 * Return a table that can be sorted. Columns: {name, kind: "text" | "number", content}. A cell is a value, or
 * {value, content, class, style}: what it is sorted by, and what it shows. The first cell of a row is its heading.
 */
function table(columns, rows, attributes = {}) {
  const head = columns.map(({ name, kind = "number", content = [name] }) =>
    el("th", { scope: "col", class: kind, "data-first": kind === "text" ? "ascending" : "descending" }, el("button", { type: "button" }, ...content)));
  const body = rows.map(({ cells, ...own }) =>
    el("tr", own, ...cells.map((cell, i) => {
      const { value, content = [value ?? NONE], class: name = "", style } = cell !== null && typeof cell === "object" ? cell : { value: cell };
      const attributes = { class: `${columns[i].kind || "number"} ${name}`.trim(), style, "data-value": value ?? "" };
      return el(i ? "td" : "th", i ? attributes : { ...attributes, scope: "row" }, ...content);
    })));
  const made = el("table", { class: "sortable", ...attributes }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
  sortable(made);
  return made;
}

/** Let the buttons in a table's head sort its rows; what is undefined stays last either way. */
function sortable(made) {
  const heads = [...made.tHead.rows[0].cells];
  heads.forEach((head, column) =>
    head.querySelector("button").addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const order = before ? (before === "ascending" ? "descending" : "ascending") : head.dataset.first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const body = made.tBodies[0];
      const rows = [...body.rows].map((row) => [row, row.cells[column].dataset.value]);
      const isNumber = rows.every(([, value]) => value === "" || !Number.isNaN(Number(value)));
      const sign = order === "ascending" ? 1 : -1;
      rows.sort(([, a], [, b]) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        return sign * (isNumber ? a - b : a.localeCompare(b));
      });
      body.append(...rows.map(([row]) => row));
    }));
}

/** Mark what can be scrolled sideways to the left or right, for its style, and say below it what can be scrolled. */
function cueScrolling(scroll) {
  const update = () => {
    const hidden = scroll.scrollWidth - scroll.clientWidth;
    scroll.classList.toggle("more-left", scroll.scrollLeft > 1);
    scroll.classList.toggle("more-right", hidden - scroll.scrollLeft > 1);
    const below = scroll.scrollHeight - scroll.clientHeight > 1;
    hint.hidden = hidden <= 1 && !below;
    hint.textContent = [hidden > 1 && "More columns: scroll sideways →", below && "More rows: scroll down ↓"].filter(Boolean).join(" · ");
  };
  const hint = el("p", { class: "more-hint", hidden: true });
  scroll.after(hint);
  scroll.addEventListener("scroll", update, { passive: true });
  const observer = new ResizeObserver(update);
  observer.observe(scroll);
  // Its table may be replaced.
  const watch = () => { [...scroll.children].forEach((child) => observer.observe(child)); update(); };
  new MutationObserver(watch).observe(scroll, { childList: true });
  watch();
}

/** Return a child in a box that scrolls sideways and says so. */
function scrolling(attributes, child) {
  const scroll = el("div", attributes, child);
  const box = el("div", {}, scroll);
  cueScrolling(scroll);
  return box;
}

function options(select, names, chosen) {
  select.replaceChildren(...names.map(([value, name]) => el("option", { value, selected: value === chosen }, name)));
}

function start() {
  const theme = document.getElementById("theme");
  theme.addEventListener("change", () => {
    if (theme.value) document.documentElement.dataset.theme = theme.value;
    else delete document.documentElement.dataset.theme;
  });
  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll(".scroll").forEach(cueScrolling);
  const sections = [...document.querySelectorAll("section.contest")];
  const contests = sections.map(() => null);
  const show = async (shown) => {
    sections.forEach((section, i) => { section.hidden = i !== shown; });
    if (contests[shown]) window.dispatchEvent(new Event("resize")); // charts fit the width they now have
    else await (contests[shown] = new Contest(sections[shown])).draw();
  };
  document.querySelectorAll("input[name=contest]").forEach((radio) =>
    radio.addEventListener("change", () => show(Number(radio.value))));
  // On paper nothing can be opened.
  const opened = [];
  window.addEventListener("beforeprint", () => {
    const closed = [...document.querySelectorAll("section.contest:not([hidden]) details:not([open])")];
    closed.forEach((details) => { details.open = true; });
    opened.push(...closed);
    contests.forEach((contest, i) => { if (!sections[i].hidden) contest?.draw(); }); // the event of opening comes too late
  });
  window.addEventListener("afterprint", () => opened.splice(0).forEach((details) => { details.open = false; }));
  return show(0);
}
