"""The media page in a browser: many files at once, by the field or dropped."""

from __future__ import annotations

import base64

import pytest

from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.browser.sign_in import open_signed_in
from tests.support.media_files import picture

pytestmark = pytest.mark.browser

DROP = """
(contents) => {
  const files = new DataTransfer();
  for (const [index, each] of contents.entries()) {
    const bytes = Uint8Array.from(atob(each), (letter) => letter.charCodeAt(0));
    files.items.add(new File([bytes], `${index}.jpg`, { type: 'image/jpeg' }));
  }
  document.querySelector('[data-drop]').dispatchEvent(new DragEvent('drop', { dataTransfer: files, cancelable: true }));
}
"""


def test_files_are_chosen_dropped_looked_at_and_deleted(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/media", width=1000)
    pictures = [picture(size=(side, 90)) for side in (99, 88)]
    chosen = [{"name": "a.jpg", "mimeType": "image/jpeg", "buffer": each} for each in pictures]
    tab.page.locator("#files").set_input_files(chosen)  # type: ignore[arg-type]  # a list of payloads
    tab.click(".dropzone button")
    assert tab.page.locator(".tiles > li").count() == 2
    dropped = [base64.b64encode(picture(size=(side, 1000))).decode() for side in (100, 900)]
    with tab.page.expect_event("load"):
        tab.page.evaluate(DROP, dropped)
    assert tab.page.locator(".tiles > li").count() == 4
    loaded = "(image) => image.decode().then(() => image.naturalWidth > 0)"
    assert all(image.evaluate(loaded) for image in tab.page.locator(".tiles img").all())
    check_page(tab, "media-full")
    (narrow,) = [
        row["id"] for row in alice.api.get("/v1/media").json()["data"] if (row["width"], row["height"]) == (100, 1000)
    ]
    tab.show(f"{server.url}/library/{narrow}", width=1000)
    assert "Instagram" in tab.page.locator(".items").inner_text()
    check_page(tab, "media-file")
    tab.page.locator("main .more-menu summary").click()
    tab.click("main a.danger")
    check_page(tab, "media-delete")
    tab.click("main button.danger")
    assert tab.page.locator(".tiles > li").count() == 3
