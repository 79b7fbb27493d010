"""Loopback S3 store that verifies every request signature with botocore's signer."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ACCESS, SECRET, REGION = "lab-access-key", "lab-s3-secret-of-some-length", "eu-test-1"
NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass
class S3Store:
    """`objects` by bucket and key. `calls`: method and path of each.

    `wrong`: an error code that every request gets; `odd`: a status and a body.
    """

    objects: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"backups": {}})
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    wrong: tuple[int, str] | None = None
    odd: tuple[int, bytes] | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def settings(self, **more: object) -> dict[str, object]:
        """The section `[backup]` of a server that has its backups here."""
        keys = {"s3_access_key": ACCESS, "s3_secret_key": SECRET, "s3_region": REGION}
        return {"s3_endpoint": self.url, "s3_bucket": "backups", **keys, **more}


class S3RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: S3Store

    def log_message(self, format: str, *values: object) -> None:
        """Nothing: tests look at `calls`."""

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        self.store.calls.append((self.command, self.path))
        if self.store.odd:
            return self._answer(*self.store.odd, {"Content-Type": "application/xml"})
        if why := self.store.wrong or self._unsigned(body):
            return self._refuse(*why)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if bucket not in self.store.objects:
            return self._refuse(404, "NoSuchBucket")
        query = parse_qs(parts.query, keep_blank_values=True)
        return getattr(self, f"_{self.command.lower()}")(self.store.objects[bucket], key, query, body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _any

    def _unsigned(self, body: bytes) -> tuple[int, str] | None:
        """As a store would: whether the signature is the one that these keys make."""
        scheme, _, said = self.headers.get("Authorization", "").partition(" ")
        if scheme != "AWS4-HMAC-SHA256":
            return 403, "AccessDenied"
        given = dict(part.strip().split("=", 1) for part in said.split(","))
        access, _, region, service, _ = given["Credential"].split("/")
        if access != ACCESS:
            return 403, "InvalidAccessKeyId"
        if (region, service) != (REGION, "s3"):
            return 400, "AuthorizationHeaderMalformed"
        headers = {name: self.headers[name] for name in given["SignedHeaders"].split(";")}
        request = AWSRequest(self.command, f"{self.store.url}{self.path}", headers=headers, data=body)
        request.context["timestamp"] = headers["x-amz-date"]
        signer = S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", REGION)
        wanted = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        whole = headers["x-amz-content-sha256"] in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest())
        return None if wanted == given["Signature"] and whole else (403, "SignatureDoesNotMatch")

    # --- What a store does ---

    def _get(self, objects: dict[str, bytes], key: str, query: dict[str, list[str]], body: bytes) -> None:
        if not key:
            return self._list(objects, query["prefix"][0])
        if key not in objects:
            return self._refuse(404, "NoSuchKey")
        return self._answer(200, objects[key], {"ETag": '"0"'})

    def _head(self, objects: dict[str, bytes], key: str, query: dict[str, list[str]], body: bytes) -> None:
        if key not in objects:
            return self._refuse(404, "NoSuchKey")
        headers = {"ETag": '"0"', "Last-Modified": "Sun, 22 Nov 2026 00:00:00 GMT"}
        return self._answer(200, objects[key], headers)

    def _put(self, objects: dict[str, bytes], key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.store.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            objects[key] = body
        self._answer(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def _post(self, objects: dict[str, bytes], key: str, query: dict[str, list[str]], body: bytes) -> None:
        named = f"<Bucket>b</Bucket><Key>{escape(key)}</Key>"
        if "uploads" in query:
            self.store.parts["u1"] = {}
            done = f"<InitiateMultipartUploadResult {NS}>{named}<UploadId>u1</UploadId></InitiateMultipartUploadResult>"
            return self._answer(200, done.encode())
        objects[key] = b"".join(part for _, part in sorted(self.store.parts.pop(query["uploadId"][0]).items()))
        done = f"<CompleteMultipartUploadResult {NS}>{named}<ETag>0</ETag></CompleteMultipartUploadResult>"
        return self._answer(200, done.encode())

    def _delete(self, objects: dict[str, bytes], key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.store.parts.pop(query["uploadId"][0])
        else:
            objects.pop(key, None)
        self._answer(204, b"")

    def _list(self, objects: dict[str, bytes], prefix: str) -> None:
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>0</ETag>"
            "<LastModified>2026-11-22T00:00:00.000Z</LastModified></Contents>"
            for key, content in sorted(objects.items())
            if key.startswith(prefix) and "/" not in key[len(prefix) :]
        )
        flags = "<IsTruncated>false</IsTruncated>"
        self._answer(200, f"<ListBucketResult {NS}><Name>b</Name>{flags}{rows}</ListBucketResult>".encode())

    def _refuse(self, status: int, code: str) -> None:
        words = f"<Error><Code>{code}</Code><Message>no</Message><Resource>/</Resource><RequestId>1</RequestId></Error>"
        self._answer(status, words.encode(), {"Content-Type": "application/xml"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextlib.contextmanager
def running_store() -> Iterator[S3Store]:
    """One that runs while the block does."""
    store = S3Store()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (S3RequestHandler,), {"store": store}))
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
