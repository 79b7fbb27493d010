"""ETags (RFC 9110, section 8.8.3): `If-None-Match` of reads, `If-Match` of writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from socialpub.base.errors import rule_error
from socialpub.base.json_codec import dumps
from socialpub.domain.access.preconditions import ANY_TAG, Resource
from socialpub.web.http.file_response import has_matching_tag
from socialpub.web.http.handler import HandlerResponse, RequestContext

_BITS = 2**64 - 1
_TAG = r'(?:W/)?"[!#-~\x80-\xff]*"'
_TAGS = re.compile(rf"[ \t,]*{_TAG}[ \t]*(?:,[ \t]*(?:{_TAG}[ \t]*)?)*")


def add_etag(reply: HandlerResponse, headers: Mapping[str, str]) -> HandlerResponse:
    """Return the API response with its ETag, or a 304 if the request's headers name that ETag."""
    if reply.status != 200:
        return reply
    if "ETag" in reply.headers:
        return apply_if_none_match(reply, headers)
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


# --- Resources that clients change ---------------------------------------------------------------------------------


def respond_tagged(resource: bytes | Resource, headers: Mapping[str, str] = MappingProxyType({})) -> HandlerResponse:
    """Return the response with a resource, whose ETag its writes take as `If-Match`."""
    found = resource if isinstance(resource, Resource) else Resource(resource)
    return HandlerResponse(found.shown, headers={"ETag": found.tag, **headers})


def parse_if_match(call: RequestContext) -> frozenset[str] | None:
    """Return the ETags in the request's `If-Match`, or `*` for any; None without the header.

    A weak one, as RFC 9110 wants, equals no resource's. Raises ApiError `http.if_match`: 400 for a malformed header,
    428 for a missing one where the route requires it.
    """
    assert call.route.if_match is not None, "its row in the table of routes documents the header"
    values = call.request.headers.getall("if-match", [])
    if not values:
        if call.route.if_match == "required":
            raise rule_error("http.if_match", "This request needs the header `If-Match`.", status=428)
        return None
    text = ",".join(values)
    if text.strip() == ANY_TAG:
        return frozenset((ANY_TAG,))
    if not _TAGS.fullmatch(text):
        raise rule_error("http.if_match", "The header `If-Match` is malformed.", status=400)
    return frozenset(re.findall(_TAG, text))
