"""`socialpub api`: requests for which there is no command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from socialpub_client.client import Socialpub
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.content_options import parse_value, read_input
from socialpub_client.commands.runner import Output, connect, connect_to_write
from socialpub_client.errors import UnexpectedAnswer

BODY_MAX = 32 << 20


def api(options: ApiOptions) -> Output:
    """Send a request, and print its response."""
    method, address = options.method.upper(), _split_path(options)
    fields = _read_fields(options)
    params = parse_qsl(address.query, keep_blank_values=True)
    body = _read_body(options) if options.input is not None else None
    if method == "GET":
        params += fields
    elif fields:
        if body is not None:
            options.usage("give -f or --input, not both")
        body = {name: parse_value(text) for name, text in fields}
    query = {name: [value for other, value in params if other == name] for name, _ in params}
    if options.paginate:
        if method != "GET":
            options.usage("--paginate is for GET")
        return Output(rows=_pages(options, connect(options), address.path, query))
    if method == "GET":
        answer = connect(options).request(method, address.path, body, params=query)
    else:
        with connect_to_write(options) as (client, key):
            answer = client.request(method, address.path, body, params=query, idempotency_key=key)
    head = [f"HTTP {answer.status}", *(f"{name}: {value}" for name, value in answer.headers.items()), ""]
    text = [] if answer.json is None else [json.dumps(answer.json, ensure_ascii=False, indent=2)]
    shown = [*head, *text] if options.include else text
    if options.json and not options.include:
        return Output(answer.json, wrote=method != "GET")
    if not shown:
        return Output(wrote=True)
    return Output(rows=shown, lines=lambda line: [line], wrote=method != "GET", verbatim=True)


def _split_path(options: ApiOptions) -> SplitResult:
    path = str(options.path)
    if not path.startswith("/") or path.startswith("//"):
        options.usage("PATH is a path of the server, such as /v1/posts; --url names the server")
    return urlsplit(path)


def _pages(options: ApiOptions, client: Socialpub, path: str, query: dict[str, Any]) -> Iterator[Any]:
    while True:
        match client.request("GET", path, params=query).json:
            case {"data": [*rows], **page}:
                yield from rows
            case _:
                options.usage("--paginate is for lists, and this is none")
        cursor = page.get("nextCursor")
        if cursor is None:
            return
        if cursor == query.get("cursor"):
            raise UnexpectedAnswer("The list does not go on: its next page is the same one again.")
        query = query | {"cursor": cursor}


def _read_fields(options: ApiOptions) -> list[tuple[str, str]]:
    found = list[tuple[str, str]]()
    for given in options.field:
        name, equals, value = given.partition("=")
        if not equals or not name:
            options.usage(f"-f: {given!r} is not NAME=VALUE")
        found.append((name, value))
    return found


def _read_body(options: ApiOptions) -> Any:
    path: Path = options.input
    try:
        return json.loads(read_input(options, path, BODY_MAX))
    except (ValueError, RecursionError):
        options.usage(f"{path} is not JSON")
