// What pages of the dashboard do beside what they do without a script. Nothing here is needed to use them.
"use strict";

// The zone of whoever signs in, so that times are shown on their clock.
for (const field of document.querySelectorAll("input[name=zone][type=hidden]"))
  field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";

// Open menus close when the work goes on elsewhere.
const menus = () => document.querySelectorAll("details.menu[open]");
document.addEventListener("click", (event) => {
  for (const menu of menus()) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of menus()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// A form is sent once, however often its button is pressed. Coming back to the page makes it ready again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) event.preventDefault();
  else if (form.method === "post") form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.firstChild.data = "Copied";
});
if (navigator.clipboard) for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;

// Parts that tell of now ask for themselves again, as long as somebody looks, nobody works in them, and they have changed.
const REFRESH_MS = 10000;
async function refresh(part) {
  if (document.hidden || part.contains(document.activeElement) || part.querySelector("details[open]")) return;
  const asked = { headers: { "If-None-Match": part.dataset.tag || "" }, redirect: "manual" };
  const answer = await fetch(part.dataset.refresh, asked).catch(() => null);
  if (answer && answer.type === "opaqueredirect") return location.reload(); // signed out meanwhile: to the sign-in page
  const lost = document.getElementById("lost");
  if (lost) lost.hidden = answer !== null && (answer.ok || answer.status === 304);
  if (!answer || answer.status !== 200) return;
  part.dataset.tag = answer.headers.get("ETag") || "";
  part.replaceChildren(...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes);
}
for (const part of document.querySelectorAll("[data-refresh]")) setInterval(refresh, REFRESH_MS, part);
