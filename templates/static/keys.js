// Keyboard shortcuts of the dashboard; `?` lists them. Each does what a link or button of the page does.
"use strict";
(() => {
  const WAYS = { o: "/", p: "/posts", c: "/calendar", d: "/drafts", a: "/accounts", m: "/media", w: "/webhooks", s: "/settings" };
  const ITEMS = ".pub .text, .entry > a:first-child, main .items a.clip";
  const SEQUENCE_MS = 1500;
  let began = -SEQUENCE_MS; // when `g` was pressed

  // Speech input and shaky hands press keys by accident: the list of shortcuts has a box that turns them off (WCAG 2.1.4).
  const OFF = "socialpub.shortcuts.off";
  const box = document.getElementById("keys-on");
  const searchKey = document.querySelector(".search kbd");
  function apply(on) {
    box.checked = on;
    searchKey.hidden = !on;
  }
  try {
    apply(localStorage.getItem(OFF) === null);
  } catch {} // this browser stores nothing: the choice lasts as long as the page
  box.addEventListener("change", () => {
    apply(box.checked);
    if (box.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "yes");
  });
  window.addEventListener("storage", (event) => event.key === OFF && apply(event.newValue === null)); // another window

  const go = (address) => {
    if (document.querySelector(`.ways a[href="${address}"]`)) location.assign(address);
  };
  const here = () => document.activeElement.closest(".pub, .entry, li");
  function step(by) {
    const items = [...document.querySelectorAll(ITEMS)].filter((item) => item.checkVisibility());
    const card = here();
    const at = items.findIndex((item) => card && card.contains(item));
    const next = items[at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by];
    if (next) next.focus();
  }
  function edit() {
    const card = here();
    const item = card && card.querySelector(ITEMS);
    const found = item && new URL(item.href).pathname.match(/^\/(post|draft)s\/([\w-]+)$/);
    if (found) return location.assign(`/compose?${found[1]}=${found[2]}`);
    const link = document.querySelector("main a[href^='/compose?post='], main a[href^='/compose?draft=']");
    if (link) link.click();
  }
  const press = (selector) => {
    const card = here();
    const found = card && card.querySelector(selector);
    if (found) found.click();
  };
  const KEYS = {
    c: () => go("/compose"),
    "/": () => document.getElementById("search").focus(),
    j: () => step(1),
    k: () => step(-1),
    e: edit,
    m: () => press(".move"),
    x: () => press(".picker"),
    "?": () => openDialog("keys"),
  };

  document.addEventListener("keydown", (event) => {
    if (!box.checked) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    const field = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], dialog";
    if (event.target.closest(field)) return;
    const inSequence = event.timeStamp - began < SEQUENCE_MS;
    began = event.key === "g" && !inSequence ? event.timeStamp : -SEQUENCE_MS;
    if (event.key === "g" && !inSequence) return;
    const act = inSequence ? WAYS[event.key] && (() => go(WAYS[event.key])) : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
})();
