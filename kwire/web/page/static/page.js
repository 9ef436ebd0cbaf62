// Keeps a page fresh. Every page shows its data without this script.
"use strict";

const EVERY_MS = 2000;

// Numbers and charts: an element with data-poll names the JSON they come from.
function showFresh(part, fresh) {
  for (const [name, text] of Object.entries(fresh.shown || {})) {
    const place = part.querySelector(`[data-value="${name}"]`);
    if (place && place.textContent !== text) place.textContent = text;
  }
  for (const [name, chart] of Object.entries(fresh.charts || {})) {
    const figure = part.querySelector(`[data-chart="${name}"]`);
    if (!figure) continue;
    figure.querySelector(".line").setAttribute("d", chart.line);
    figure.querySelector(".area").setAttribute("d", chart.area);
    figure.querySelector("[data-chart-now]").textContent = chart.now;
    figure.querySelector("[data-chart-window]").textContent = chart.window;
    figure.querySelector("[data-chart-most]").textContent = chart.most;
    figure.querySelector("svg").setAttribute("aria-label", chart.summary);
  }
  part.dataset.polled = String(Number(part.dataset.polled || 0) + 1);
}

async function poll(part) {
  if (!document.hidden) {
    try {
      const answer = await fetch(part.dataset.poll, { credentials: "same-origin" });
      if (answer.ok) showFresh(part, await answer.json());
    } catch {
      // The broker is away for a moment; the next round tries again.
    }
  }
  setTimeout(poll, EVERY_MS, part);
}

// The newest records: while the box is ticked, the page's own HTML is asked for again.
async function follow(box, part) {
  if (box.checked && !document.hidden && !part.querySelector("details[open]")) {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const its = fresh.querySelector("[data-live]");
      if (answer.ok && its && box.checked) part.replaceChildren(...its.childNodes);
    } catch {
      // As above.
    }
  }
  setTimeout(follow, EVERY_MS, box, part);
}

for (const part of document.querySelectorAll("[data-poll]")) setTimeout(poll, EVERY_MS, part);

const box = document.querySelector("[data-follow]");
if (box) {
  box.parentElement.hidden = false;
  follow(box, document.querySelector("[data-live]"));
}
