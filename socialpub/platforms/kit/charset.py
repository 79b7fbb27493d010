"""Decoding of web pages as browsers do (encoding and html.spec.whatwg.org, parsing).

turbohtml has the standard's labels and code pages. Python's codecs of the same names differ: `shift_jis` lacks ㈱,
`euc_jp` ①, `gb2312` 镕, and `iso-8859-1` has control characters where the web has quotation marks.
"""

from __future__ import annotations

import re

from socialpub.platforms.kit import html_tokens

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be"))
_UTF16_XML = ((b"<\0?\0x\0", "utf-16le"), (b"\0<\0?\0x", "utf-16be"))
_CHARSET = re.compile(r"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^;\t\n\f\r \"']+))", re.IGNORECASE)
_XML_DECLARATION = re.compile(rb"<\?xml[^>]*?encoding[\0- ]*=[\0- ]*(?:\"([^\"\0- >]*)\"|'([^'\0- >]*)')")
_XML_BYTES = 1024  # maximal extent of a declaration
_IN_A_PAGE = {
    "utf-16le": "utf-8",
    "utf-16be": "utf-8",
    "x-user-defined": "windows-1252",
}  # impossible in a page that was readable as ASCII so far


def decode(page: bytes, content_type: str) -> str:
    """Decode a page without its byte order mark; malformed bytes become U+FFFD.

    The encoding is taken from the byte order mark, `content_type`, the page's declaration, or else is UTF-8. Browsers
    guess undeclared encodings; for a few words a guess is often wrong, and this text is published.
    """
    for mark, name in _MARKS:
        if page.startswith(mark):
            return _decoded(page[len(mark) :], name)
    return _decoded(page, _label(content_type) or _declared(page, content_type) or "utf-8")


def is_xml(content_type: str) -> bool:
    """Return whether a page is XML."""
    return "xml" in content_type.partition(";")[0].lower()


def _decoded(page: bytes, name: str) -> str:
    from turbohtml import detect  # noqa: F401  # registers the codecs; few servers make link cards

    return page.decode(f"whatwg-{name}", "replace")


def _encoding(label: str) -> str | None:
    """Return the standard name of an encoding in lower case; None for an unknown label."""
    import turbohtml

    try:
        return (turbohtml.parse(b"", encoding=label).encoding or "").lower() or None
    except LookupError:
        return None


def _label(value: str) -> str | None:
    """Return the encoding of a Content-Type."""
    found = _CHARSET.search(value)
    return _encoding(next(filter(None, found.groups()), "")) if found else None


def _declared(page: bytes, content_type: str) -> str | None:
    """Find the declared encoding: XML declaration first for XML, `<meta>` first for HTML."""
    for start, name in _UTF16_XML:
        if page.startswith(start):
            return name
    looks = (_xml, _meta) if is_xml(content_type) else (_meta, _xml)
    name_inside = next(filter(None, (look(page) for look in looks)), None)
    return _IN_A_PAGE.get(name_inside, name_inside) if name_inside else None


def _xml(page: bytes) -> str | None:
    found = _XML_DECLARATION.match(page[:_XML_BYTES])
    return _encoding((found[1] or found[2] or b"").decode("latin-1")) if found else None


def _meta(page: bytes) -> str | None:
    for token in html_tokens.tags(page.decode("latin-1"), "meta"):
        name = _encoding(token.attr("charset") or "")
        if name is None and (token.attr("http-equiv") or "").lower() == "content-type":
            name = _label(token.attr("content") or "")
        if name:
            return name
    return None
