"""HTTPS server of a few files on this machine, with a certificate of a name."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.mail_server import make_certificate


@contextlib.contextmanager
def https_files(files: Mapping[str, bytes], name: str, folder: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    """Its port, and a client's context that trusts its certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    certificate = make_certificate(folder, name)
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(certificate))
    ours.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = ours.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], theirs
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
