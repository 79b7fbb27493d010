// Additions to the pages of the dashboard, which all work without a script.
"use strict";

// The time zone of the browser, so that times are shown in it.
for (const field of document.querySelectorAll("input[name=zone][type=hidden]"))
  field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";

// Open menus close on a click outside and on Escape.
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

// A form is sent once, however often its button is pressed. Coming back to the page makes it ready again, and so does
// Esc, which stops the browser before the next page has come.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) event.preventDefault();
  else if (event.submitter && "stay" in event.submitter.dataset) {
    event.preventDefault();
    press(form, event.submitter);
  } else if (form.method === "post") form.dataset.sent = "yes";
});
function makeReady() {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
}
window.addEventListener("pageshow", makeReady);
window.navigation?.addEventListener("navigateerror", makeReady);

// What was done is said at the foot of the page for ten seconds, or until it is dismissed; not while it is read.
for (const toast of document.querySelectorAll(".toast")) {
  toast.querySelector("[data-close]").hidden = false;
  const leave = () => toast.matches(":hover, :focus-within") || toast.remove();
  setTimeout(() => setInterval(leave, 2000), 8000);
  toast.querySelector("[data-close]").addEventListener("click", () => toast.remove());
}

// Buttons that open a dialog of the page.
for (const button of document.querySelectorAll("button[data-dialog]")) {
  button.hidden = false;
  button.addEventListener("click", () => openDialog(button.dataset.dialog));
}
function openDialog(id) {
  const dialog = document.getElementById(id);
  dialog.showModal();
  dialog.querySelector("form[method=dialog] button").focus(); // not a box that Space would untick
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
  button.firstChild.data = "Copied";
});
function showCopying() {
  if (navigator.clipboard) for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
}
showCopying();

// Nothing moves under a button that is pressed: a press that ends beside it is no click. A menu of the browser can take
// the end of a press: the next move or key tells that it is over.
let released = Promise.resolve();
let release = null; // while a button is pressed
function hold() {
  if (!release) released = new Promise((resolve) => (release = resolve)); // a second finger is part of the same press
}
function letGo(event) {
  if (event.buttons || !release) return;
  setTimeout(release); // after the click
  release = null;
}
document.addEventListener("pointerdown", hold, true);
for (const end of ["pointerup", "pointercancel", "pointermove", "keydown"]) document.addEventListener(end, letGo, true);

// A page whose content changes by itself is requested again while it is visible: every ten seconds, sooner while
// something is being published, and when its window is used again. Parts that differ are replaced, except one that has the focus, an open menu or a chosen
// post: it waits.
const REFRESH_MS = 10000;
const PROGRESS_MS = 1000;
const isUsed = (part) => part.contains(document.activeElement) || part.querySelector("details[open], input:checked");
let waiting = false; // a part is out of date
async function refresh() {
  if (document.hidden) return true;
  const answer = await fetch(location.href, { redirect: "manual", headers: { Accept: "text/html" } }).catch(() => null);
  if (answer && answer.type === "opaqueredirect") return void location.reload(); // the session has ended: to the sign-in page
  const text = answer && answer.ok ? await answer.text().catch(() => null) : null; // null too if it breaks off
  const lost = document.getElementById("lost");
  if (lost) lost.hidden = text !== null;
  if (text === null) return true;
  const page = new DOMParser().parseFromString(text, "text/html");
  await released;
  waiting = false;
  for (const part of document.querySelectorAll("main [data-part]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.innerHTML === part.innerHTML) continue;
    if (isUsed(part)) waiting = true;
    else part.replaceChildren(...fresh.childNodes);
  }
  return true;
}
function follow(wait) {
  const isPublishing = document.querySelector("main [data-progress]");
  if (!isPublishing && !waiting && !document.querySelector("main [data-refresh]")) return;
  const next = isPublishing ? Math.min(wait, REFRESH_MS) : REFRESH_MS;
  setTimeout(async () => (await refresh()) && follow(next * 1.5), next);
}
follow(PROGRESS_MS);
// Meanwhile something was changed elsewhere, perhaps in another window.
for (const event of ["visibilitychange", "focus"])
  window.addEventListener(event, () => document.querySelector("main [data-refresh]") && refresh());

// Going back to a form brings its key back with its words: what was sent with it is not sent again.
for (const field of document.querySelectorAll("input[name=key][type=hidden]")) {
  if (history.state && history.state.key) field.value = history.state.key;
  else history.replaceState({ key: field.value }, "");
}

// A button that stays has the form sent without leaving the page: what has changed comes back, part by part. One is
// answered after another, so that each sends what the one before it has changed; `prepare` changes the form in its turn.
// Where no such page comes (signed out meanwhile, say), the form is sent as it is without a script.
let pressed = Promise.resolve();
function press(form, button, prepare = () => {}) {
  const send = () => {
    prepare();
    return button.isConnected && stay(form, button, "[data-part]"); // its part may have been replaced
  };
  return (pressed = pressed.then(send, send));
}
let turn = 0;
const LIVE = "[data-live]";
async function stay(form, button, parts) {
  const typing = parts === LIVE;
  if (!typing) {
    clearTimeout(counting);
    again = false;
  }
  const mine = ++turn;
  const sent = new FormData(form, button);
  const page = await answered(form, button, sent, typing);
  await released;
  if (typing && mine !== turn) return; // a button was pressed meanwhile
  if (page && page.querySelector("form.compose")) {
    const changed = button.dataset.stay && page.getElementById(button.dataset.stay); // a field that is no part
    if (changed) form.elements[button.dataset.stay].value = changed.value;
    show(form, page, parts, sent, button.name.startsWith("piece-"));
    if (button.value === "check") document.getElementById("verdict").scrollIntoView({ block: "nearest" }); // far below, on a phone
    return;
  }
  if (typing) return;
  for (const each of form.querySelectorAll("[data-stay]")) delete each.dataset.stay;
  form.requestSubmit(button);
}
async function answered(form, button, data, typing) {
  data.delete("file"); // of the form without a script
  const sent = { method: "POST", body: new URLSearchParams(data), redirect: "manual", headers: { Accept: "text/html" } };
  if (!typing) button.setAttribute("aria-busy", "true");
  const answer = await fetch(button.hasAttribute("formaction") ? button.formAction : form.action, sent).catch(() => null);
  const text = answer && answer.type === "basic" ? await answer.text().catch(() => null) : null;
  button.removeAttribute("aria-busy");
  return text === null ? null : new DOMParser().parseFromString(text, "text/html");
}
// What was written or chosen since the form was `sent` stays: it becomes the default of the field and of the one that
// has come, so that their parts are alike if nothing else has changed. The fields of pieces that have `moved` do not, nor
// a line of text that was sent as it is: the answer may empty it.
const FIELDS = "textarea[name], select[name], input[name]:not([type=hidden], [type=file])";
const PIECES = /^(piece|in)\./;
function carry(field, now) {
  const { checked, value } = field;
  if (field.matches("[type=checkbox], [type=radio]")) field.defaultChecked = now.defaultChecked = checked;
  else if (field.options) for (const each of [...field.options, ...now.options]) each.defaultSelected = each.value === value;
  else field.defaultValue = now.defaultValue = value;
}
function show(form, page, parts, sent, moved) {
  const at = document.activeElement;
  const caret = [at.selectionStart, at.selectionEnd];
  const around = at.closest("[data-part]");
  for (const part of form.querySelectorAll(parts)) {
    if (!part.isConnected) continue; // it was in a part that has come
    const fresh = page.getElementById(part.id);
    for (const field of fresh ? part.querySelectorAll(FIELDS) : []) {
      const now = page.getElementById(field.id);
      if (!now || now.type !== field.type || (field.type === "text" && sent.get(field.name) === field.value)) continue;
      if (!moved || !PIECES.test(field.name)) carry(field, now);
    }
    const stays = fresh && ("keep" in fresh.dataset || ("once" in fresh.dataset && part.querySelector("details")));
    if (fresh && !stays && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
  }
  for (const field of form.querySelectorAll("textarea[id]")) {
    const fresh = page.getElementById(field.id);
    if (!fresh) continue;
    if (fresh.hasAttribute("aria-invalid")) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
  if (parts !== LIVE) {
    for (const each of form.querySelectorAll("details.findings")) each.open = page.getElementById(each.lastElementChild.id)?.parentElement.open || false;
    if (!page.querySelector("#verdict .verdict")) check(form);
  }
  showCopying();
  form.dispatchEvent(new Event("parts"));
  if (at.isConnected) return;
  const wanted = (around && around.querySelector("[autofocus]")) || document.getElementById(at.id || "media");
  (wanted || document.getElementById("media")).focus();
  if (wanted && wanted.id === at.id && at.type === "textarea") wanted.setSelectionRange(...caret); // the field of before
}
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-counts]");
  if (!form || event.target.type === "file") return;
  check(form, event.target.type === "checkbox" ? 0 : REST_MS);
});

// What is written is checked when the keys rest, and what is chosen at once: one request at a time, and another one if
// something has changed meanwhile.
const REST_MS = 400;
let counting = 0;
let checking = false;
let again = false;
function check(form, wait = REST_MS) {
  clearTimeout(counting);
  counting = setTimeout(async () => {
    if (checking) return void (again = true);
    checking = true;
    await stay(form, form.querySelector("button[value=live]"), LIVE);
    checking = false;
    if (again) check(form);
    again = false;
  }, wait);
}
// A form that comes with words in it (of a draft, a post, or from before the session ended) is checked as it is.
for (const form of document.querySelectorAll("form[data-counts]"))
  if (form.elements.text.value && !document.querySelector("#verdict .verdict")) check(form, 0);

// Files that are dropped on a form are chosen in its field, and sent.
for (const form of document.querySelectorAll("form[data-drop]")) {
  const over = (is) => (event) => {
    event.preventDefault();
    form.classList.toggle("over", is);
  };
  form.addEventListener("dragover", over(true));
  form.addEventListener("dragleave", over(false));
  form.addEventListener("drop", (event) => {
    over(false)(event);
    if (!event.dataTransfer.files.length) return;
    form.querySelector("input[type=file]").files = event.dataTransfer.files;
    form.requestSubmit();
  });
}
