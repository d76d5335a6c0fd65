"use strict";
const articles = [...document.querySelectorAll("article")];
const children = [...document.querySelectorAll("details.child")];
const words = document.getElementById("words");
const agent = document.getElementById("agent");
const count = document.getElementById("count");
const unfold = document.getElementById("unfold");
const texts = new Map();

function textOf(article) {
  if (!texts.has(article)) texts.set(article, article.textContent.toLowerCase());
  return texts.get(article);
}

function open(place) {
  for (let up = place?.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
}

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const article of articles) {
    const of = !agent.value || article.dataset.agent === agent.value;
    const fits = of && wanted.every((word) => textOf(article).includes(word));
    article.hidden = !fits;
    shown += fits;
    if (fits && (wanted.length || agent.value)) open(article);
    if (fits && wanted.length) {
      for (const part of article.querySelectorAll("details")) {
        if (wanted.some((word) => part.textContent.toLowerCase().includes(word))) part.open = true;
      }
    }
  }
  for (const child of children) child.hidden = !child.querySelector("article:not([hidden])");
  count.textContent = `${shown} of ${articles.length} shown`;
}

function go(step) {
  const shown = articles.filter((article) => article.checkVisibility());
  if (!shown.length) return;
  const here = document.activeElement.closest("article");
  let place = shown.indexOf(here);
  if (place < 0) {
    const below = shown.findIndex((article) => article.getBoundingClientRect().top >= 0);
    place = step > 0 ? (below < 0 ? shown.length : below) - 1 : below < 0 ? shown.length : below;
  }
  const next = shown[Math.min(Math.max(place + step, 0), shown.length - 1)];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "start" });
}

function fold() {
  const open = unfold.getAttribute("aria-pressed") !== "true";
  unfold.setAttribute("aria-pressed", String(open));
  for (const article of articles) {
    if (article.hidden) continue;
    for (const part of article.querySelectorAll("details")) part.open = open;
  }
  for (const child of children) child.open = open;
}

addEventListener("hashchange", () => open(document.getElementById(location.hash.slice(1))));
let waiting = 0;
words.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(filter, 120);
});
agent.addEventListener("change", filter);
unfold.addEventListener("click", fold);
for (const link of document.querySelectorAll("a[data-agent]")) {
  link.addEventListener("click", () => {
    agent.value = link.dataset.agent;
    filter();
  });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape" && typing) {
    words.value = "";
    agent.value = "";
    filter();
    event.target.blur();
  } else if (typing) {
    return;
  } else if (event.key === "/") {
    event.preventDefault();
    words.focus();
  } else if (event.key === "j" || event.key === "k") {
    event.preventDefault();
    go(event.key === "j" ? 1 : -1);
  } else if (event.key === "o") {
    fold();
  }
});
document.getElementById("tools").hidden = false;
filter();
