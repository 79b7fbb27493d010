"""HTTP servers for media that posts reference by URL."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.app_server import Person


class FileServer:
    """A web server of files: path → (status, bytes, headers); counts what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.asked: list[str] = []
        self.open = threading.Event()
        self.open.set()
        shelf = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shelf.asked.append(self.path)
                shelf.open.wait(60)
                status, data, headers = shelf.files.get(self.path, (404, b"nothing", {}))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def put(self, path: str, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> str:
        self.files[path] = (status, data, headers or {})
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _FolderHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """The address of a web server of the files in a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_FolderHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def url_item(url: str, kind: str = "image") -> dict[str, str]:
    return {"kind": kind, "url": url}


def publish_media(person: Person, *media: Any, targets: int = 1, **more: Any) -> list[dict[str, Any]]:
    body = {"targets": [{"accountId": person.bluesky}] * targets, "text": "Look.", "media": list(media)} | more
    response = person.api.publish(body)
    assert response.status_code in (200, 202), response.text
    return list(response.json()["results"])
