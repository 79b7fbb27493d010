"""Describe responses that are not media: web page, sign-in page, JSON, empty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from socialpub.base import json_codec
from socialpub.base.http import UpstreamResponse

HEAD_BYTES = 64 * 1024  # of a page, enough to find its password form
_NAME_MAX = 80
_HTML_PAGE = re.compile(r"<!doctype html|<html[\s>]|<head[\s>]|<body[\s>]", re.IGNORECASE)
_SVG = re.compile(r"<svg[\s>]", re.IGNORECASE)
_SIGN_IN_FORM = re.compile(r"""type\s*=\s*["']?password""", re.IGNORECASE)
_SIGN_IN_PATH = re.compile(r"\b(?:log-?[io]n|sign-?in|sso|oauth2?|saml2?|auth)\b", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[a-z0-9]+/[a-z0-9.+-]{1,80}")
_STATUS_TEXTS = {
    401: "It asks for a sign-in.",
    403: "It refuses access.",
    404: "There is nothing at this address.",
    407: "It asks for a sign-in.",
    410: "There is nothing at this address any more.",
}


def describe_status(reply: UpstreamResponse) -> str:
    """Describe a status other than 2xx in a sentence or two."""
    return f"The address answered with status {reply.status_code}. {_STATUS_TEXTS.get(reply.status_code, '')}".rstrip()


def describe_content(url: str, reply: UpstreamResponse, path: Path) -> str:
    """Describe a response that is not media, by its bytes before its headers."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    declared = _parse_content_type(reply.headers)
    kind = _detect_kind(url, reply, head, declared)
    label = f" ({declared})" if declared and head else ""
    return (
        f"{_redact_url(url)} answered with {kind}{label}, not an image, video or document of a type that is supported."
    )


def _detect_kind(url: str, reply: UpstreamResponse, head: bytes, declared: str) -> str:
    if not head:
        return "nothing (0 bytes)"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").decode("utf-8", "replace")
    start = text[:1024]
    if _HTML_PAGE.search(start) or (declared in ("text/html", "application/xhtml+xml") and "\0" not in start):
        return "a sign-in page" if _is_sign_in(url, reply, text) else "a web page"
    if _SVG.search(start):
        return "an SVG drawing"
    if start.startswith("<?xml"):
        return "an XML document"
    if start[:1] in ("{", "[") and (declared.endswith("json") or _is_json(text)):
        return "JSON"
    return "text" if declared.startswith("text/") and "\0" not in start else "a file of another type"


def _is_sign_in(url: str, reply: UpstreamResponse, text: str) -> bool:
    """Return whether the page has a password field, or was reached by a sign-in redirect."""
    if _SIGN_IN_FORM.search(text):
        return True
    if reply.url == url:
        return False
    there = urlsplit(str(reply.url))
    return bool(_SIGN_IN_PATH.search(f"{there.hostname or ''}{there.path}".replace("_", "-")))


def _is_json(text: str) -> bool:
    try:
        json_codec.loads(text)
    except ValueError:
        return False
    return True


def _parse_content_type(headers: Mapping[str, str]) -> str:
    """Return the media type of a Content-Type header; empty if malformed."""
    found = _MEDIA_TYPE.fullmatch(headers.get("content-type", "").partition(";")[0].strip().lower())
    return found[0] if found else ""


def _redact_url(url: str) -> str:
    """Return the end of a URL without its query, which may hold secrets."""
    parts = urlsplit(url)
    name = unquote(parts.path.rstrip("/").rpartition("/")[2])
    printable = "".join(each for each in name if each.isprintable())[-_NAME_MAX:]
    return f"…/{printable}" if printable else parts.hostname or "The address"
