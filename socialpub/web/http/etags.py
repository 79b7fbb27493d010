"""ETags (RFC 9110, section 8.8.3): a client that has the current response gets a 304."""

from __future__ import annotations

from collections.abc import Mapping

from socialpub.base.json_codec import dumps
from socialpub.web.http.file_response import has_matching_tag
from socialpub.web.http.handler import HandlerResponse

_BITS = 2**64 - 1


def add_etag(reply: HandlerResponse, headers: Mapping[str, str]) -> HandlerResponse:
    """Return the API response with its ETag, or a 304 if the request's headers name that ETag."""
    if reply.status != 200:
        return reply
    text = reply.body if isinstance(reply.body, str | bytes) else dumps(reply.body)
    body = text.encode() if isinstance(text, str) else text
    tag = f'"{hash(body) & _BITS:016x}"'  # differs between runs of the server: a client then gets the body again
    tagged = HandlerResponse(body, reply.status, {**reply.headers, "ETag": tag}, reply.content_type, reply.cookies)
    return apply_if_none_match(tagged, headers)


def apply_if_none_match(reply: HandlerResponse, headers: Mapping[str, str]) -> HandlerResponse:
    """Return a 304 if the request's If-None-Match names the response's ETag."""
    known = headers.get("if-none-match")
    if known is not None and has_matching_tag(known, reply.headers["ETag"]):
        return reply._replace(body=b"", status=304)
    return reply
