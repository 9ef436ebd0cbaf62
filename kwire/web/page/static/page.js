// Keeps a page fresh. Every page shows its data without this script.
"use strict";

const EVERY_MS = 2000;
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

// Times: UTC without this script, else in the zone of whoever reads them.
const asUtc = (at) => at.toISOString().replace("T", " ").slice(0, -1);
const asLocal = (at) => asUtc(new Date(at - at.getTimezoneOffset() * 60000));

function showLocalTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.title = `${asUtc(at)} UTC`;
    time.textContent = asLocal(at);
  }
}

function useLocalZone() {
  showLocalTimes(document);
  for (const place of document.querySelectorAll("[data-zone]")) place.textContent = ZONE;
  for (const field of document.querySelectorAll("[data-utc]")) {
    const at = new Date(`${field.value}Z`);
    if (field.value && !isNaN(at)) field.value = asLocal(at).replace(" ", "T").slice(0, 19);
    field.form.addEventListener("formdata", (event) => {
      if (field.value) event.formData.set(field.name, new Date(field.value).toISOString());
    });
  }
}

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
    for (const place of figure.querySelectorAll("[data-text]")) {
      place.textContent = chart[place.dataset.text];
    }
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

// The newest records, and queues: while the box is ticked, the page's own HTML is asked for again.
async function renew(part, isWanted) {
  const isUsed = part.querySelector("details[open]") || part.contains(document.activeElement);
  if (!isWanted() || document.hidden || isUsed) return;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const its = fresh.querySelector("[data-live]");
    if (!answer.ok || !its || !isWanted()) return;
    part.replaceChildren(...its.childNodes);
    part.toggleAttribute("data-again", its.hasAttribute("data-again"));
    showLocalTimes(part);
  } catch {
    // As above.
  }
}

async function follow(box, part) {
  await renew(part, () => box.checked);
  setTimeout(follow, EVERY_MS, box, part);
}

// Values whose schemas come a moment later.
async function renewAgain(part, left) {
  await renew(part, () => part.hasAttribute("data-again"));
  if (left > 0 && part.hasAttribute("data-again")) setTimeout(renewAgain, EVERY_MS, part, left - 1);
}

for (const part of document.querySelectorAll("[data-poll]")) setTimeout(poll, EVERY_MS, part);

useLocalZone();

const late = document.querySelector("[data-again]");
if (late) setTimeout(renewAgain, EVERY_MS / 4, late, 3);

const box = document.querySelector("[data-follow]");
if (box) {
  box.parentElement.hidden = false;
  follow(box, document.querySelector("[data-live]"));
}
