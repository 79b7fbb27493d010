"""The sink of the log, and what is kept of a platform's words: no secret, no line that somebody else wrote."""

from __future__ import annotations

import base64
import io
import json
import logging
import time
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base import redact
from socialpub.base.redact import HIDDEN
from socialpub.domain.accounts.tokens import scrub
from socialpub.platforms.contract import Tokens

SECRET = "canary+/of=a token~ü"


def logged(message: str, *arguments: object, error: Exception | None = None) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(redact.LogFormatter("%(levelname)s %(name)s %(message)s"))
    record = logging.LogRecord("x", logging.INFO, "", 0, message, arguments, None)
    if error:
        record.exc_info = (type(error), error, error.__traceback__)
    handler.emit(record)
    return out.getvalue()


@pytest.mark.parametrize(
    "mark", ["\n", "\r", "\r\n", "\x1b[2J", "\x00", "\x85", "\u2028", "\u202e", "\u200b", "\ud800"]
)
def test_nothing_that_is_sent_makes_a_line_of_its_own(mark: str) -> None:
    said = logged("name %s", f"a{mark}ERROR socialpub.web forged")
    lines = said.splitlines()
    assert all(line.startswith(("INFO x name a", "  | ")) for line in lines), lines
    assert mark.strip("\n") == "" or mark.strip("\n") not in said
    assert all(character.isprintable() for line in lines for character in line)


def test_a_traceback_is_indented_whatever_its_error_says() -> None:
    try:
        raise ValueError("bad\nERROR socialpub.web forged Bearer abcdefghijklmnopqrstuvwxyz")
    except ValueError as error:
        first, *rest = logged("stopped", error=error).splitlines()
    assert first == "INFO x stopped"
    assert rest
    assert all(line.startswith("  | ") for line in rest)
    assert "abcdefghijkl" not in "".join(rest)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("key svc_live_" + "a1B2" * 12 + " used", f"key svc_live_{HIDDEN} used"),
        ("Authorization: Bearer abc.def-ghi_jkl~mnopq==", f"Authorization: Bearer {HIDDEN}"),
        ("authorization: DPoP abcdefghijklmnopqrst", f"authorization: DPoP {HIDDEN}"),
        ("it was eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2ln then", f"it was {HIDDEN} then"),
        (
            "https://b.test/o?X-Amz-Date=1&X-Amz-Signature=0ff&x=1",
            f"https://b.test/o?X-Amz-Date=1&X-Amz-Signature={HIDDEN}&x=1",
        ),
        ("https://g.test/v1/me?access_token=EAAB&fields=id", f"https://g.test/v1/me?access_token={HIDDEN}&fields=id"),
        (
            "/next=https%3A%2F%2Fg%3Faccess_token%3DEAAB%26a%3D1",
            f"/next=https%3A%2F%2Fg%3Faccess_token%3D{HIDDEN}%26a%3D1",
        ),
        ("POST /setup/AbCdEfGhIjKlMnOp 200", f"POST /setup/{HIDDEN} 200"),
        ("https://p.test/media/med_0a1B/0123456789abcdef.jpg", f"https://p.test/media/med_0a1B/{HIDDEN}.jpg"),
        ("redis://user:hunter2@host/0", f"redis://{HIDDEN}@host/0"),
        ("https://a.test/?tokens=3&barcode=9&keyword=a", "https://a.test/?tokens=3&barcode=9&keyword=a"),
        ("the bearer of this is basic stuff", "the bearer of this is basic stuff"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_wherever_it_came_from(text: str, shown: str) -> None:
    assert redact.text(text) == shown
    assert logged("%s", text).rstrip("\n") == f"INFO x {shown}"
    assert scrub({"message": [text]}, Tokens("")) == {"message": [shown]}


PIECES = (
    *(
        "svc_live_",
        "X_TEST_",
        "a1B2" * 6,
        "Bearer ",
        "dPoP+",
        "BASIC%20",
        "ba\u017fic ",
        "oauth ",
        "eyJhbGciOi",
        ".",
        "eyJ",
    ),
    *("?", "&", ";amp;", "sig=", "Access_TOKEN=", "%3f", "%26", "code%3D", "/setup/", "/media/med_1/", "://", ":", "@"),
    *(" ", "'", "\u212a", "\u0131", "x"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_line_is_let_pass_only_where_no_pattern_finds_anything(said: str) -> None:
    shown = said
    for _, pattern, instead in redact._PATTERNS:
        shown = pattern.sub(instead, shown)
    assert redact.text(said) == shown


@pytest.mark.parametrize(
    "text, shown",
    [
        ("eyJ-eyJhbGciOiJ-eyJ.eyJz", HIDDEN),
        ("eyJhbGciOiJ.eyJ eyJhbGciOiJ.eyJhbGciOi.eyJhbGciOi", f"eyJhbGciOiJ.eyJ {HIDDEN}"),
        ("eyJ-" * 20_000, "eyJ-" * 20_000),  # took 13 s at 400 KB: every beginning looked for its end in all the rest
    ],
)
def test_a_run_of_beginnings_of_tokens_is_looked_through_once(text: str, shown: str) -> None:
    begun = time.thread_time()
    assert redact.text(text) == shown
    assert time.thread_time() - begun < 0.5, "it grows with the square of the length"


@pytest.mark.parametrize("before", ["", "a", "ab", "abc:"])
def test_a_known_secret_is_found_however_it_is_written(before: str) -> None:
    raw = (before + SECRET + "!").encode()
    forms = [
        SECRET,
        json.dumps(SECRET),
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote(urllib.parse.quote(SECRET, safe=""), safe=""),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        raw.hex(),
    ]
    for form in forms:
        left = redact.without(f"<{form}>", [SECRET])
        assert HIDDEN in left, form
        assert len(left) < len(HIDDEN) + 16, left
