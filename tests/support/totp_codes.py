"""TOTP codes of the second factor."""

from __future__ import annotations

import html
import re

import httpx
import pyotp

from socialpub.domain.identity import totp
from tests.support.app_server import AppServer

PATH = "/settings/totp"


def make_code(server: AppServer, secret: str, steps: int = 0) -> str:
    """What the app shows, so many steps from now."""
    return pyotp.TOTP(secret).generate_otp(server.clock.now_ms() // totp.STEP_MS + steps)


def offered_secret(browser: httpx.Client) -> tuple[str, str]:
    """The secret that a page shows, and the same as its form carries it."""
    page = browser.get(PATH).text
    secret = re.search(r'id="copy-secret"><code>(\w+)<', page)
    sealed = re.search(r'name="secret" value="([^"]+)"', page)
    assert secret
    assert sealed
    return secret[1], html.unescape(sealed[1])
