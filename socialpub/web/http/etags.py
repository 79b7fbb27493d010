"""ETags (RFC 9110, section 8.8.3): who has an answer already is told so, in place of being sent it again (304)."""

from __future__ import annotations

from collections.abc import Mapping

from socialpub.base.json_codec import dumps
from socialpub.web.http.file_response import has_matching_tag
from socialpub.web.http.handler import HandlerResponse

_BITS = 2**64 - 1


def add_etag(reply: HandlerResponse, asked: Mapping[str, str]) -> HandlerResponse:
    """An answer of the API with its ETag, or 304 to a request whose headers name that."""
    if reply.status != 200:
        return reply
    text = reply.body if isinstance(reply.body, str | bytes) else dumps(reply.body)
    body = text.encode() if isinstance(text, str) else text
    tag = f'"{hash(body) & _BITS:016x}"'  # of this run: another may tell another of the same bytes, which is sent then
    named = HandlerResponse(body, reply.status, {**reply.headers, "ETag": tag}, reply.content_type, reply.cookies)
    return apply_if_none_match(named, asked)


def apply_if_none_match(reply: HandlerResponse, asked: Mapping[str, str]) -> HandlerResponse:
    """304 to a request whose If-None-Match names the answer's ETag."""
    known = asked.get("if-none-match")
    if known is not None and has_matching_tag(known, reply.headers["ETag"]):
        return reply._replace(body=b"", status=304)
    return reply
