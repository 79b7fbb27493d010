"""Baseline HTTP server: a bare Sanic application with the event loop of socialpub.

`python -m benchmarks.bare_server PORT`. `/posts` parses a body by the same model, `/bytes/N` sends so many bytes that
lie ready, `/json` makes a small answer.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.response import json, raw

from socialpub.domain.schemas.posts import PublishRequest

ANSWER = {"status": "ok"}


@functools.cache
def _ready(size: int) -> bytes:
    return b'{"data":"' + b"x" * (size - 11) + b'"}'


async def answer(request: Request) -> HTTPResponse:
    return json(ANSWER)


async def parse(request: Request) -> HTTPResponse:
    PublishRequest.model_validate_json(request.body)
    return json(ANSWER, 202)


async def send(request: Request, size: int) -> HTTPResponse:
    return raw(_ready(size), content_type="application/json")


def main() -> None:
    app: Sanic[Any, Any] = Sanic("bare", configure_logging=False)
    app.add_route(answer, "/json")
    app.add_route(parse, "/posts", methods=["POST"])
    app.add_route(send, "/bytes/<size:int>")
    app.run("127.0.0.1", int(sys.argv[1]), single_process=True, access_log=False, motd=False)


if __name__ == "__main__":
    main()
