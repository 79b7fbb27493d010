"""JavaScript expressions that list layout and accessibility defects of a page."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.browser.chromium import BrowserTab

# For every element with text of its own: the contrast of that text against what is behind it, by WCAG's formula.
CONTRAST = """
(() => {
  const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    throw new Error('nothing is painted behind the text');
  };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${node.tagName} ${ratio.toFixed(2)} ${node.textContent.slice(0, 40)}`);
  }
  return found;
})()
"""

# Elements that stick out to the right of the screen and are not inside something that scrolls by itself.
STICKING_OUT = """
[...document.querySelectorAll('body *')]
  .filter((node) => !node.closest('.scroll, pre, .skip, .unseen'))
  .filter((node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map((node) => `${node.tagName}.${node.className} ${node.textContent.trim().slice(0, 40)}`)
"""

# What a reader of the screen would miss: names of fields, buttons, links and regions, and a page's own outline.
UNNAMED = """
(() => {
  const found = [];
  const say = (what, node) => found.push(`${what} ${node ? node.outerHTML.slice(0, 80) : ''}`);
  const text = (node) => node.textContent.trim() || node.getAttribute('aria-label');
  if (!document.documentElement.lang) say('no language');
  if (!document.title.trim()) say('no title');
  if (document.querySelectorAll('h1').length !== 1) say('not one h1');
  if (document.querySelectorAll('main').length !== 1) say('not one main');
  for (const node of document.querySelectorAll('input:not([type=hidden]), select, textarea'))
    if (![...node.labels].some(text) && !node.getAttribute('aria-label')) say('no label', node);
  for (const node of document.querySelectorAll('button, a[href]')) if (!text(node)) say('no name', node);
  for (const node of document.querySelectorAll('[role=region], section')) {
    const names = (node.getAttribute('aria-labelledby') || '').split(' ').map((id) => document.getElementById(id));
    if (!node.getAttribute('aria-label') && (!names[0] || !names.every(text))) say('no name', node);
  }
  for (const node of document.querySelectorAll('img')) if (!node.hasAttribute('alt')) say('no alt', node);
  const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => found.push(`id ${id} twice`));
  const levels = [...document.querySelectorAll('h1, h2, h3, h4')].map((node) => Number(node.tagName[1]));
  for (let place = 1; place < levels.length; place++)
    if (levels[place] > levels[place - 1] + 1) found.push(`h${levels[place]} after h${levels[place - 1]}`);
  return found;
})()
"""


# Buttons, and links that look like one, of the same name that do not do the same: heard, they cannot be told apart.
ALIKE = """
(() => {
  const name = (node) => (node.getAttribute('aria-label') || node.textContent).replace(/\\s+/g, ' ').trim();
  const sent = (node) => [...(node.form?.querySelectorAll('input[type=hidden]') || [])].map((field) => field.value);
  const asked = (node) => node.getAttribute('formaction') || node.form?.action;
  const does = (node) => node.href || [asked(node), node.name, node.value, ...sent(node)].join();
  const found = new Map();
  for (const node of document.querySelectorAll('button:not([hidden]), a.button'))
    found.set(name(node), (found.get(name(node)) || new Set()).add(does(node)));
  return [...found].filter(([, deeds]) => deeds.size > 1).map(([name]) => name);
})()
"""


def check_page(tab: BrowserTab, name: str) -> None:
    """Whoever uses the page that is open: on a phone, in the dark, without eyes. A picture, where one is wanted."""
    check_empty(name, unnamed=tab.ask(UNNAMED), alike=tab.ask(ALIKE))
    for width in (360, 1280):
        for dark in (False, True):
            tab.look(width=width, dark=dark)
            if wanted := os.environ.get("PICTURES"):
                tab.picture(Path(wanted) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
            wide = tab.ask("document.documentElement.scrollWidth")
            check_empty(
                f"{name}, {width} wide, {'dark' if dark else 'light'}",
                barriers=tab.barriers(),
                contrast=tab.ask(CONTRAST),
                sticking_out=tab.ask(STICKING_OUT),
                too_wide=[wide] if wide > width else [],
            )
    tab.look(width=1000, dark=False)
    check_empty(name, complaints=[text for text in tab.complaints if "404" not in text])  # the fakes have no icon


def check_empty(where: str, **found: list[object]) -> None:
    """Nothing is wrong; else what, and where."""
    wrong = {what: each for what, each in found.items() if each}
    assert not wrong, f"{where}: {wrong}"
