"""Redaction of secrets and line breaks in log output and upstream messages."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
import urllib.parse

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from socialpub.base.observability import redaction
from socialpub.base.observability.redaction import PLACEHOLDER
from socialpub.domain.accounts.tokens import redact_reply
from socialpub.platforms.contract import Tokens
from tests.support.isolation.regex_attacks import seconds

SECRET = "canary+/of=a token~ü"


def logged(message: str, *arguments: object, error: Exception | None = None) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(redaction.TextLogFormatter("%(levelname)s %(name)s %(message)s"))
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
        ("key svc_live_" + "a1B2" * 12 + " used", f"key svc_live_{PLACEHOLDER} used"),
        ("Authorization: Bearer abc.def-ghi_jkl~mnopq==", f"Authorization: Bearer {PLACEHOLDER}"),
        ("authorization: DPoP abcdefghijklmnopqrst", f"authorization: DPoP {PLACEHOLDER}"),
        ("it was eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2ln then", f"it was {PLACEHOLDER} then"),
        (
            "https://b.test/o?X-Amz-Date=1&X-Amz-Signature=0ff&x=1",
            f"https://b.test/o?X-Amz-Date=1&X-Amz-Signature={PLACEHOLDER}&x=1",
        ),
        (
            "https://g.test/v1/me?access_token=EAAB&fields=id",
            f"https://g.test/v1/me?access_token={PLACEHOLDER}&fields=id",
        ),
        (
            "/next=https%3A%2F%2Fg%3Faccess_token%3DEAAB%26a%3D1",
            f"/next=https%3A%2F%2Fg%3Faccess_token%3D{PLACEHOLDER}%26a%3D1",
        ),
        ("POST /setup/AbCdEfGhIjKlMnOp 200", f"POST /setup/{PLACEHOLDER} 200"),
        ("https://p.test/media/med_0a1B/0123456789abcdef.jpg", f"https://p.test/media/med_0a1B/{PLACEHOLDER}.jpg"),
        ("redis://user:hunter2@host/0", f"redis://{PLACEHOLDER}@host/0"),
        ("https://a.test/?tokens=3&barcode=9&keyword=a", "https://a.test/?tokens=3&barcode=9&keyword=a"),
        ("the bearer of this is basic stuff", "the bearer of this is basic stuff"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_wherever_it_came_from(text: str, shown: str) -> None:
    assert redaction.redact(text) == shown
    assert logged("%s", text).rstrip("\n") == f"INFO x {shown}"
    assert redact_reply({"message": [text]}, Tokens("")) == {"message": [shown]}


@pytest.mark.parametrize(
    "text, shown",
    [
        ("eyJ-eyJhbGciOiJ-eyJ.eyJz", PLACEHOLDER),
        ("eyJhbGciOiJ.eyJ eyJhbGciOiJ.eyJhbGciOi.eyJhbGciOi", f"eyJhbGciOiJ.eyJ {PLACEHOLDER}"),
        ("eyJ-" * 20_000, "eyJ-" * 20_000),  # took 13 s at 400 KB: every beginning looked for its end in all the rest
    ],
)
def test_a_run_of_beginnings_of_tokens_is_looked_through_once(text: str, shown: str) -> None:
    assert redaction.redact(text) == shown
    assert seconds(redaction.redact, text) < 2, "it grows with the square of the length"


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
        left = redaction.remove_secrets(f"<{form}>", [SECRET])
        assert PLACEHOLDER in left, form
        assert len(left) < len(PLACEHOLDER) + 16, left


# --- In every way of writing -------------------------------------------------------------------------------------

SECRETS = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x1F64F, exclude_categories=("Cs", "Cn")), min_size=8, max_size=60
) | st.text('abcXYZ019-._~+/=|:%"\\', min_size=8, max_size=60)


def percent(char: str, choose: st.DataObject) -> str:
    """The escapes of a character, each digit in either case, escaped again up to twice."""
    digits = "".join(f"%{'25' * choose.draw(st.integers(0, 2))}{byte:02x}" for byte in char.encode())
    return "".join(choose.draw(st.sampled_from([digit, digit.upper()])) for digit in digits)


def unicode_escape(char: str, choose: st.DataObject) -> str:
    raw = char.encode("utf-16-be")
    units = [raw[at : at + 2].hex() for at in range(0, len(raw), 2)]
    slashes = "\\" * choose.draw(st.integers(1, 3))
    return "".join(f"{slashes}u{choose.draw(st.sampled_from([unit, unit.upper()]))}" for unit in units)


WRITINGS = {
    "plain": lambda secret, _: secret,
    "JSON": lambda secret, _: json.dumps(secret)[1:-1],
    "JSON as it is": lambda secret, _: json.dumps(secret, ensure_ascii=False)[1:-1],
    "every character as its code": lambda secret, choose: "".join(unicode_escape(char, choose) for char in secret),
    "address": lambda secret, _: urllib.parse.quote(secret, safe=""),
    "address, with small letters in the escapes": lambda secret, _: re.sub(
        "%..", lambda found: found[0].lower(), urllib.parse.quote(secret, safe="")
    ),
    "address twice": lambda secret, _: urllib.parse.quote(urllib.parse.quote(secret, safe=""), safe=""),
    "some characters escaped": lambda secret, choose: "".join(
        percent(char, choose) if char in '%"\\' or choose.draw(st.booleans()) else char for char in secret
    ),
    "JSON twice": lambda secret, _: json.dumps(json.dumps(secret)[1:-1])[1:-1],
    "JSON in an address": lambda secret, _: urllib.parse.quote(json.dumps(secret)[1:-1], safe=""),
    "JSON in an address twice": lambda secret, _: urllib.parse.quote(
        urllib.parse.quote(json.dumps(secret)[1:-1], safe=""), safe=""
    ),
    "codes in an address": lambda secret, choose: urllib.parse.quote(
        "".join(unicode_escape(char, choose) for char in secret), safe=""
    ),
    "hex": lambda secret, _: secret.encode().hex(),
    "HEX": lambda secret, _: secret.encode().hex().upper(),
    "base64": lambda secret, _: base64.b64encode(b"id:" + secret.encode()).decode(),
    "base64 of addresses": lambda secret, _: base64.urlsafe_b64encode(b"id" + secret.encode() + b"!").decode(),
    "base64 in an address": lambda secret, _: urllib.parse.quote(base64.b64encode(secret.encode()).decode(), safe=""),
}


@pytest.mark.matrix
@pytest.mark.parametrize("writing", WRITINGS)
@given(secret=SECRETS, before=st.text("ab %=\\", max_size=4), after=st.text("xy &", max_size=4), choose=st.data())
def test_no_known_secret_survives_in_any_writing(
    writing: str, secret: str, before: str, after: str, choose: st.DataObject
) -> None:
    assume(len(urllib.parse.unquote(secret)) >= redaction.SECRET_MIN)  # what stands for less stands in too many words
    written = WRITINGS[writing](secret, choose)
    left = redaction.remove_secrets(f"{before} <{written}> {after}", [secret])
    assert PLACEHOLDER in left, written
    assert len(left) <= len(f"{before} <{PLACEHOLDER}> {after}") + 16, left  # at most some digits of base64 beside it
    assert left.startswith(f"{before} <")
    assert left.endswith(f"> {after}")


@pytest.mark.parametrize("encode", [1, 2, 3])
@pytest.mark.parametrize(
    "secret", ["00000%00\\/", "%41\\u0041\\/xyz12", "\\u002541abcdefg", "%5Cu0041abcdefg", 'a%22\\"b%5C\\/cd']
)
@pytest.mark.parametrize("form", ["plain", "JSON"])
def test_a_secret_that_holds_url_and_json_escapes_is_found(secret: str, encode: int, form: str) -> None:
    written = secret if form == "plain" else json.dumps(secret)[1:-1]
    for _ in range(encode):
        written = urllib.parse.quote(written, safe="")
    assert redaction.remove_secrets(f"<{written}>", [secret]).replace("%5C", "") == f"<{PLACEHOLDER}>"


@given(st.text('ab%25cAC1\\u00/"', max_size=200), SECRETS)
def test_what_holds_no_secret_is_left_as_it_is(said: str, secret: str) -> None:
    if "[" not in secret and PLACEHOLDER not in redaction.remove_secrets(said, [secret]):
        assert redaction.remove_secrets(said, [secret]) == said


@pytest.mark.parametrize(
    "said", ["%25" * 130_000, "\\" * 400_000, "%" * 400_000, "\\u00" * 100_000, "%61%62%63%64%65%66%67%68" * 15_000]
)
def test_escapes_are_looked_through_once(said: str) -> None:
    took = seconds(lambda text: redaction.remove_secrets(text, ["abcdefgh", "%25%25%25%25"]), said)
    assert took < 4, "it grows with the square of the length"


HIDES = (
    *(
        "sig",
        "SIG",
        "apikey",
        "api_key",
        "API-Key",
        "apiKey",
        "x-api-key",
        "APIKey",
        "aPiKeY",
        "key",
        "Key",
        "signingKey",
    ),
    *("credential", "credentials", "userCredential", "session", "sessionId", "x-session", "SESSION_ID", "sEsSiOnId"),
    *("access_token", "accesstoken", "idToken", "client_secret", "Set-Cookie", "password", "X-Amz-Signature", "jwt"),
    *("hmac", "privateKey", "auth.key", "X-Sig", "passwd"),
)
SHOWS = (
    *(
        "keyword",
        "keywords",
        "monkey",
        "signal",
        "sessionsCount",
        "session_count",
        "design",
        "message",
        "code",
        "status",
    ),
    *("error_subcode", "fbtrace_id", "hotkeys_count", "turkey", "signed_at", "obsession", "sight", "asset", "id"),
)


@pytest.mark.parametrize("name", HIDES)
@pytest.mark.parametrize("secret", ["s", "0123456789", 12345678, 1.5, ["a", "b"], {"a": "b"}], ids=repr)
def test_a_field_that_is_named_as_a_secret_shows_nothing(name: str, secret: object) -> None:
    assert redaction.redact_json({"a": [{name: secret}]}) == {"a": [{name: PLACEHOLDER}]}


@pytest.mark.parametrize("name", SHOWS)
@pytest.mark.parametrize("said", [7, "words"], ids=repr)
def test_a_field_with_another_name_is_shown(name: str, said: object) -> None:
    expected = PLACEHOLDER if name == "session_count" and isinstance(said, str) else said
    assert redaction.redact_json({name: said}) == {name: expected}


def test_whether_there_is_a_secret_and_when_it_ends_is_shown() -> None:
    said = {"token": None, "has_session": True, "token_expires_at": 1700000000, "key": "", "session_expires_in": 60}
    assert redaction.redact_json(said) == said


MORE = 200_000  # characters of an answer that are not kept
LONG_SECRET = "".join(f"{number:04x}Zq" for number in range(60))


def pieces(secret: str) -> set[str]:
    return {secret[at : at + 8] for at in range(len(secret) - 7)}


def ways(filler: str) -> dict[str, str]:
    """What is kept of an answer that begins with `filler` and goes on with a secret, by the way it is kept."""
    said, tokens = filler + LONG_SECRET + "y" * MORE, Tokens(LONG_SECRET)
    nested = {"error": {"message": "no", "detail": ["no", said]}}
    return {
        "a text": redaction.redact_response(said.encode(), [LONG_SECRET]).decode(),
        "JSON": redaction.redact_response(json.dumps(nested).encode(), [LONG_SECRET]).decode(),
        "a value": json.dumps(redact_reply({"body": said}, tokens)),
        "a nested value": json.dumps(redact_reply({"status": 400, "body": nested}, tokens)),
        "a log line": logged("%s", said.replace("Bearer", "").replace(LONG_SECRET, f" Bearer {LONG_SECRET}")),
    }


@pytest.mark.matrix
@pytest.mark.parametrize("filler", ["x", LONG_SECRET + " ", f"Bearer {LONG_SECRET} ", "%41\\u0041"])
@pytest.mark.parametrize("offset", [-400, -370, -361, -200, -8, -1, 0, 1, 200, 8 * 1024 - 370, 8 * 1024 - 8, 8 * 1024])
def test_no_part_of_a_secret_in_which_an_answer_is_cut_is_kept(filler: str, offset: int) -> None:
    most = redaction.RESPONSE_MAX + offset
    whole = filler * (most // len(filler))
    for way, kept in ways("x" * (most - len(whole)) + whole).items():
        assert len(kept) < 2 * redaction.RESPONSE_MAX + 300, way  # a backslash is two characters in JSON
        assert not [piece for piece in pieces(LONG_SECRET) if piece in kept], way


def test_of_a_long_answer_no_more_is_looked_through_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    for name in ("remove_secrets", "redact"):
        plain = getattr(redaction, name)
        monkeypatch.setattr(
            redaction, name, lambda said, *more, plain=plain: looked.append(len(said)) or plain(said, *more)
        )
    many = {"error": {"code": 7}, "x": ["%41" * 1000] * 300, "y": {f"name{n}": "%41" for n in range(10_000)}}
    for answer in (json.dumps(many), "%41" * 300_000):
        looked.clear()
        kept = redaction.redact_response(answer.encode(), [SECRET])
        assert sum(looked) < 2 * redaction.RESPONSE_MAX
        redact_reply(json.loads(answer) if answer[0] == "{" else answer, Tokens("canary-of-a-token"))
        assert sum(looked) < 6 * redaction.RESPONSE_MAX
    shown = redaction.redact_response(json.dumps(many).encode(), [SECRET])
    assert json.loads(shown)["error"] == {"code": 7}
    assert len(kept) < len(answer)


def test_long_log_line_is_cut_without_exposing_a_secret_at_its_end() -> None:
    key = "svc_live_" + "a1B2" * 12
    for before in (redaction.LINE_MAX - 20, redaction.LINE_MAX - 5, redaction.LINE_MAX + 1):
        line = logged("%s", "x" * (before - len("INFO x ") - 1) + " " + key + " " + "y" * 1_000_000)
        assert len(line) < redaction.LINE_MAX + 100
        assert "a1B2a1" not in line
        assert "characters)" in line
