"""`socialpub api`: requests for which there is no command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from socialpub_client.client import Socialpub
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.content_options import STDIN, parse_value
from socialpub_client.commands.runner import Output, connect, connect_to_write, read_stdin

BODY_MAX = 32 << 20


def api(options: ApiOptions) -> Output:
    """Send a request, and print its response."""
    method, address = options.method.upper(), urlsplit(str(options.path))
    fields = _read_fields(options)
    params: list[tuple[str, Any]] = list(parse_qsl(address.query, keep_blank_values=True))
    body = _read_body(options) if options.input is not None else None
    if method == "GET":
        params += fields.items()
    elif fields:
        if body is not None:
            options.usage("give -f or --input, not both")
        body = fields
    query = {name: [value for other, value in params if other == name] for name, _ in params}
    if options.paginate:
        if method != "GET":
            options.usage("--paginate is for GET")
        return Output(rows=_pages(connect(options), address.path, query))
    with connect_to_write(options) as (client, key):
        answer = client.request(method, address.path, body, params=query, idempotency_key=key)
    head = [f"HTTP {answer.status}", *(f"{name}: {value}" for name, value in answer.headers.items()), ""]
    text = [] if answer.json is None else [json.dumps(answer.json, ensure_ascii=False, indent=2)]
    shown = [*head, *text] if options.include else text
    if options.json and not options.include:
        return Output(answer.json, wrote=method != "GET")
    return Output(rows=shown, lines=lambda line: [line], wrote=method != "GET") if shown else Output(wrote=True)


def _pages(client: Socialpub, path: str, query: dict[str, Any]) -> Iterator[Any]:
    while True:
        page = client.request("GET", path, params=query).json
        yield from page["data"]
        if page.get("nextCursor") is None:
            return
        query = query | {"cursor": page["nextCursor"]}


def _read_fields(options: ApiOptions) -> dict[str, Any]:
    found = dict[str, Any]()
    for given in options.field:
        name, equals, value = given.partition("=")
        if not equals or not name:
            options.usage(f"-f: {given!r} is not NAME=VALUE")
        found[name] = parse_value(value)
    return found


def _read_body(options: ApiOptions) -> Any:
    path: Path = options.input
    if str(path) == STDIN:
        text = read_stdin(options)
    else:
        with path.open(encoding="utf-8") as file:
            text = file.read(BODY_MAX + 1)
    if len(text) > BODY_MAX:
        options.usage(f"{path} is too large")
    try:
        return json.loads(text)
    except ValueError:
        options.usage(f"{path} is not JSON")
