// Dragging in the calendar: a card is dropped on a day or an hour, and the form of the page moves it there. Without a
// script each card has a link to a page that does the same.
"use strict";
(() => {
  const form = document.getElementById("mover");
  if (!form) return;
  let card = null;
  for (const link of document.querySelectorAll(".entry[draggable] a")) link.draggable = false; // the card is dragged

  const find = (event) => card && event.target.closest("[data-drop]");
  const mark = (place) => {
    for (const each of document.querySelectorAll(".over")) each.classList.remove("over");
    if (place) place.classList.add("over");
  };

  document.addEventListener("dragstart", (event) => {
    card = event.target.closest ? event.target.closest(".entry[draggable=true]") : null;
    if (!card) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", card.textContent.trim());
    card.classList.add("dragged");
  });
  document.addEventListener("dragover", (event) => {
    const place = find(event);
    mark(place);
    if (!place) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "move";
  });
  document.addEventListener("dragend", () => {
    if (card) card.classList.remove("dragged");
    card = null;
    mark(null);
  });
  document.addEventListener("drop", (event) => {
    const place = find(event);
    if (!place) return;
    event.preventDefault();
    const [hour, minute] = card.querySelector(".clock").textContent.slice(0, 5).split(":");
    const clock = `${place.dataset.drop || hour}:${minute}`;
    if (place === card.closest("[data-drop]")) return;
    const address = new URL(card.querySelector(".move").href);
    form.action = address.pathname;
    form.elements.from.value = address.searchParams.get("from");
    form.elements.day.value = place.closest("[data-day]").dataset.day;
    form.elements.clock.value = clock;
    const [moved, home, next] = [card, card.parentNode, card.nextSibling];
    place.append(card);
    form.requestSubmit();
    window.navigation?.addEventListener("navigateerror", () => home.insertBefore(moved, next), { once: true }); // Esc
  });
})();
