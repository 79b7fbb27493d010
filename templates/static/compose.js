// The composer saves a draft while its text is written. Without a script its buttons do.
"use strict";

(() => {
  const form = document.querySelector("form.compose");
  if (!form) return;
  const fields = form.elements;
  const SAVE_MS = 1200;
  const RETRY_MS = 2000;
  const KEPT_MS = 30 * 86400 * 1000;
  const OWN = ["csrf_token", "page", "key", "do", "file", "seen", "was", "draft", "post", "save_key"];
  // A form that has only these is not worth a draft.
  const PLAIN = /^(to\.|when$|day$|clock$|in_zone$|fold$|new-alt$)/;

  // --- What this browser keeps until the server has it -------------------------------------------------------------

  const tabId = (() => {
    const known = sessionStorage.getItem("socialpub.tab");
    if (known) return known;
    const made = randomHex(8);
    sessionStorage.setItem("socialpub.tab", made);
    return made;
  })();

  function randomHex(bytes) {
    return [...crypto.getRandomValues(new Uint8Array(bytes))].map((each) => each.toString(16).padStart(2, "0")).join("");
  }

  const prefix = () => `socialpub.compose ${form.dataset.owner} ${fields.post.value || fields.draft.value || "new"} `;

  // An account's fields come when it is chosen: empty, they are as good as absent.
  const isUnset = (name, value) => value === "" && /^[\da-f-]{36}\./.test(name);

  function read() {
    const pairs = [...new FormData(form)].filter(
      ([name, value]) => !OWN.includes(name) && typeof value === "string" && !isUnset(name, value),
    );
    return Object.fromEntries(pairs);
  }

  function keep() {
    const entry = { fields: read(), seen: fields.seen.value, at: Date.now() };
    try {
      localStorage.setItem(prefix() + tabId, JSON.stringify(entry));
    } catch {
      tell("This browser keeps nothing: its storage is full or off. Save the draft before you leave the page.");
    }
  }

  function* entries(start) {
    for (const name of Object.keys(localStorage))
      if (name.startsWith(start)) yield [name, JSON.parse(localStorage.getItem(name))];
  }

  function offer() {
    for (const [name, entry] of entries("socialpub.compose "))
      if (entry.sent || Date.now() - entry.at > KEPT_MS) localStorage.removeItem(name);
    const shown = JSON.stringify(read());
    for (const [name, entry] of entries(prefix())) {
      if (JSON.stringify(entry.fields) === shown || !isWorthSaving(entry.fields)) localStorage.removeItem(name);
      else return show(name, entry);
    }
  }

  function show(name, entry) {
    const notice = document.getElementById("unsaved");
    notice.querySelector("span").textContent = `, of ${new Date(entry.at).toLocaleString()}`;
    notice.hidden = false;
    document.getElementById("forget").onclick = () => {
      localStorage.removeItem(name);
      notice.hidden = true;
    };
    document.getElementById("restore").onclick = () => {
      localStorage.removeItem(name);
      localStorage.setItem(prefix() + tabId, JSON.stringify(entry));
      restore(entry);
    };
  }

  // The server fills the form in: it alone knows the files.
  function restore(entry) {
    const back = document.createElement("form");
    back.method = "post";
    back.action = "/compose";
    const own = Object.fromEntries(["csrf_token", "page", "key", "was", "draft", "post"].map((name) => [name, fields[name].value]));
    const all = { ...entry.fields, ...own, seen: entry.seen, do: "restore" };
    for (const [name, value] of Object.entries(all)) {
      const field = document.createElement("textarea"); // keeps line breaks, which a hidden input may not
      field.name = name;
      field.value = value;
      back.append(field);
    }
    back.hidden = true;
    document.body.append(back);
    back.submit();
  }

  // --- Saving --------------------------------------------------------------------------------------------------------

  const saved = document.getElementById("saved");
  const problem = document.getElementById("save-problem");
  let timer = 0;
  let saving = null;
  let again = null; // the body of a request whose answer was lost: it is sent once more, as it was
  const isClosed = () => Boolean(fields.post.value || document.getElementById("conflict")); // to automatic saving
  let stopped = isClosed();

  function tell(text) {
    problem.firstElementChild.textContent = text;
    problem.hidden = !text;
    if (text) saved.textContent = "Not saved";
  }

  function changed() {
    keep();
    if (!stopped && !timer && !saving && isWorthSaving(read())) timer = setTimeout(save, SAVE_MS);
  }

  function isWorthSaving(values) {
    if (fields.draft.value || fields.post.value) return true;
    return Object.entries(values).some(([name, value]) => value && !PLAIN.test(name));
  }

  function save() {
    timer = 0;
    saving = send().finally(() => {
      saving = null;
    });
  }

  async function send() {
    const kept = JSON.stringify(read());
    const body = again || build();
    const retried = again !== null;
    const asked = { method: "POST", body, redirect: "manual", headers: { Accept: "application/json" } };
    const answer = await fetch("/drafts", asked).catch(() => null);
    const text = answer && (await answer.text().catch(() => null)); // null too if it breaks off
    if (text === null || answer.status >= 500) {
      again = body;
      tell("The server does not answer. Your text is kept in this browser and saved as soon as it does.");
      timer = setTimeout(save, RETRY_MS);
      return;
    }
    again = null;
    if (answer.ok) return done(JSON.parse(text), kept, retried);
    stopped = answer.status !== 400;
    if (answer.status === 412) tell("This draft was changed in another tab or by someone else. Nothing was overwritten. Press “Save draft” to compare.");
    else if (answer.status === 400) tell(`Not saved yet: ${JSON.parse(text).error.message}`);
    else if (answer.status === 404) tell("This draft was deleted after you opened it. Press “Save draft” to keep your text in a new one.");
    else if (text && ![401, 403].includes(answer.status)) tell(`Not saved: ${JSON.parse(text).error.message}`);
    else tell("Your session has ended. Your text is kept in this browser: sign in again, and it is offered here.");
  }

  function build() {
    const body = new URLSearchParams(Object.entries({ ...read(), csrf_token: fields.csrf_token.value }));
    for (const name of ["draft", "seen", "was"]) body.set(name, fields[name].value);
    body.set("do", "autosave");
    body.set("save_key", randomHex(16));
    return body;
  }

  function done(draft, kept, retried) {
    const before = prefix() + tabId;
    fields.draft.value = draft.id;
    fields.seen.value = draft.seen;
    fields.page.value = `/compose?draft=${draft.id}`;
    if (fields.was.value === "approved" && draft.status === "draft") {
      fields.was.value = "draft";
      document.getElementById("approval").firstElementChild.textContent = "The approval has ended, because the draft was changed.";
    }
    history.replaceState(history.state, "", fields.page.value);
    localStorage.removeItem(before);
    tell("");
    saved.textContent = `Draft saved ${new Date().toLocaleTimeString()}`;
    if (retried || JSON.stringify(read()) !== kept) changed();
  }

  form.addEventListener("input", changed);
  form.addEventListener("parts", () => {
    if (JSON.stringify(read()) !== last) changed();
    last = JSON.stringify(read());
  });
  let last = JSON.stringify(read());

  // A form that leaves the page waits for files that are being uploaded, unless one fails, and for a save that is under
  // way, or whose answer was lost: it needs the draft's id and ETag.
  form.addEventListener("submit", async (event) => {
    if (event.submitter && "stay" in event.submitter.dataset) return;
    clearTimeout(timer);
    timer = 0;
    if (uploads || saving || again) {
      event.preventDefault();
      event.stopPropagation();
      event.submitter?.setAttribute("aria-busy", "true");
      saved.textContent = uploads ? "Waiting for the files…" : "Waiting for the draft to be saved…";
      const before = failures;
      while (uploads) await queue;
      if (again && !saving && failures === before) save();
      await saving;
      event.submitter?.removeAttribute("aria-busy");
      if (failures > before) return void (saved.textContent = "Not sent: a file is missing");
      again = null; // the form itself is the next try
      clearTimeout(timer);
      if (!event.submitter || event.submitter.isConnected) form.requestSubmit(event.submitter);
      return;
    }
    stopped = true;
    setTimeout(() => wait(event.submitter)); // when its name is in what is sent
    const name = prefix() + tabId;
    const entry = JSON.parse(localStorage.getItem(name) || "null");
    if (entry) localStorage.setItem(name, JSON.stringify({ ...entry, sent: true }));
  });
  function wait(button) {
    if (!button) return;
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    saved.textContent = "Sending…";
  }
  function makeReady() {
    for (const button of form.querySelectorAll("button:disabled")) {
      button.disabled = false;
      button.removeAttribute("aria-busy");
    }
  }
  window.addEventListener("pageshow", (event) => {
    makeReady();
    if (event.persisted) stopped = isClosed();
  });
  window.navigation?.addEventListener("navigateerror", () => {
    if (!form.querySelector("button:disabled")) return;
    makeReady();
    stopped = isClosed();
    keep();
    saved.textContent = "Stopped. Send it again: nothing is published twice.";
  });

  // --- Accounts, files -----------------------------------------------------------------------------------------------

  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choose]");
    if (!button) return;
    event.preventDefault();
    const chosen = button.dataset.choose.split(" ");
    for (const box of form.querySelectorAll("input[name^='to.']"))
      box.checked = chosen[0] === "yes" || chosen.includes(box.name.slice(3));
    form.dispatchEvent(new Event("input", { bubbles: true }));
  });

  const drop = document.getElementById("drop");
  const many = document.getElementById("many");
  const list = document.getElementById("uploads");
  drop.querySelector("button").addEventListener("click", () => many.click());
  many.addEventListener("change", () => {
    add([...many.files]);
    many.value = "";
  });
  const holdsFiles = (data) => data !== null && [...data.types].includes("Files");
  form.addEventListener("dragover", (event) => {
    if (!holdsFiles(event.dataTransfer)) return;
    event.preventDefault();
    drop.classList.add("over");
  });
  form.addEventListener("dragleave", () => drop.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    drop.classList.remove("over");
    if (!holdsFiles(event.dataTransfer)) return;
    event.preventDefault();
    add([...event.dataTransfer.files]);
  });
  form.addEventListener("paste", (event) => {
    if (!holdsFiles(event.clipboardData) || event.clipboardData.types.includes("text/plain")) return; // a picture of words
    event.preventDefault();
    add([...event.clipboardData.files]);
  });

  // One after another. When a file is stored it joins the form as the form is then: it has changed meanwhile.
  let queue = Promise.resolve();
  let uploads = 0; // that have not ended
  let failures = 0;
  const NOT_TAKEN = "not uploaded: the server did not take it. Sign in again or try later.";
  function add(files) {
    for (const file of files) {
      const line = document.createElement("li");
      const name = document.createElement("bdi");
      const bar = document.createElement("progress");
      name.textContent = file.name;
      bar.max = 1;
      bar.value = 0;
      bar.setAttribute("aria-label", `Upload of ${file.name}`);
      line.append(name, bar);
      list.append(line);
      uploads += 1;
      queue = queue.then(() => upload(file, line, bar)).catch(() => fail(line, bar, NOT_TAKEN)).finally(() => (uploads -= 1));
    }
  }

  async function upload(file, line, bar) {
    const body = new FormData();
    for (const name of ["csrf_token", "key"]) body.set(name, fields[name].value);
    body.set("file", file);
    const answer = await sendFile(body, bar);
    const page = answer && new DOMParser().parseFromString(answer, "text/html");
    const wrong = page && page.querySelector("#file-wrong p, main .lead"); // or of an error page
    const stored = page && page.querySelector("form.compose [name='media.1']");
    if (wrong || !stored) return fail(line, bar, wrong ? wrong.textContent : NOT_TAKEN);
    const picked = document.createElement("input");
    picked.type = "hidden";
    picked.name = `pick.${stored.value}`;
    picked.value = "yes";
    await window.press(form, form.querySelector("button[value=live]"), () => document.getElementById("media").append(picked));
    line.remove();
  }

  function fail(line, bar, text) {
    failures += 1;
    const said = document.createElement("span");
    said.className = "problem";
    said.textContent = text;
    bar.replaceWith(said);
  }

  function sendFile(body, bar) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest(); // tells how much was sent, which fetch does not
      request.upload.addEventListener("progress", (event) => {
        if (event.lengthComputable) bar.value = event.loaded / event.total;
      });
      request.addEventListener("loadend", () => resolve(request.responseText)); // empty if it failed or was stopped
      request.open("POST", "/compose/media");
      request.setRequestHeader("Accept", "text/html");
      request.send(body);
    });
  }

  if ("restored" in form.dataset || document.querySelector("#verdict .verdict")) changed();
  else offer();
})();
