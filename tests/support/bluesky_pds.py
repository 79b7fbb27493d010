"""Real Bluesky server (@atproto/pds) on loopback, and its account owner in a browser.

../shared/tools/pds-start.sh starts it, and installs it on the first run. `stands_at` redirects the server's requests
for a fictional origin to a local one, by a replaced `fetch` that the script loads.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

SCRIPT = Path(__file__).parents[3] / "shared/tools/pds-start.sh"
INSTALLED = Path(os.environ.get("REAL") or Path.home() / ".cache/socialpub-real") / "pds/node_modules/@atproto/pds"
SCOPE = "atproto transition:generic"
START_SECONDS = 900  # the first time it has to be installed
_API = "/@atproto/oauth-provider/~api"
_FETCH = """
import { readFileSync } from 'node:fs'
const real = globalThis.fetch
globalThis.fetch = (input, init) => {
  const url = input.url ?? String(input)
  const [from, to] = JSON.parse(readFileSync(process.env.STANDS_AT))
  return real(url.startsWith(from + '/') ? new Request(to + url.slice(from.length), input) : input, init)
}
"""


@dataclass
class BlueskyPds:
    """The server, and Alice's account there."""

    url: str
    plc: str
    handle: str
    did: str
    password: str
    app_password: str
    names: Path

    def site(self) -> dict[str, str]:
        """The settings that make this the whole network."""
        return {"service": self.url, "plc_directory": self.plc, "public_api": self.url, "video_service": ""}

    def stands_at(self, origin: str, found_at: str) -> None:
        """Where the server finds the documents of an origin; it goes to no bare addresses."""
        self.names.write_text(json.dumps([origin, found_at.replace("//127.0.0.1:", "//localhost:")]))

    def records(self, collection: str = "app.bsky.feed.post") -> list[dict[str, Any]]:
        """All posts of the account, or its other records, the oldest first."""
        wanted = {"repo": self.did, "collection": collection, "limit": "100", "reverse": "true"}
        answer = httpx.get(f"{self.url}/xrpc/com.atproto.repo.listRecords", params=wanted, trust_env=False)
        return list(answer.raise_for_status().json()["records"])

    def blob(self, cid: str) -> bytes:
        wanted = {"did": self.did, "cid": cid}
        answer = httpx.get(f"{self.url}/xrpc/com.atproto.sync.getBlob", params=wanted, trust_env=False)
        return answer.raise_for_status().content


def start_pds(home: Path) -> Generator[BlueskyPds]:
    """Until the end of the generator; pytest skips where the server cannot be had."""
    if not SCRIPT.is_file():
        pytest.skip(f"no real PDS: {SCRIPT} is not here")
    fetch, names = home / "fetch.mjs", home / "stands_at.json"
    fetch.write_text(_FETCH)
    names.write_text('["https://nowhere.invalid", ""]')
    here = {"NODE_OPTIONS": f"--import {fetch.as_uri()}", "STANDS_AT": str(names), "TMPDIR": str(home)}
    run = subprocess.run(
        [str(SCRIPT)], env=os.environ | here, capture_output=True, text=True, timeout=START_SECONDS, check=False
    )
    if run.returncode and not INSTALLED.is_dir():
        pytest.skip(f"no real PDS: node and npm cannot be had here: {run.stderr.strip()[-300:]}")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    names_of_fields = ("base_url", "plc_url", "handle", "did", "password", "app_password")
    try:
        yield BlueskyPds(*(told[name] for name in names_of_fields), names=names)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(told["pid"], signal.SIGTERM)


class PdsOwner:
    """Alice's browser at the server's own pages, as their script drives them (@atproto/oauth-provider 0.22.9).

    Each page and call is checked there for its Fetch Metadata, its Origin and Referer, and a cookie that a header
    repeats.
    """

    def __init__(self, pds: BlueskyPds) -> None:
        self._pds, self._jar = pds, dict[str, str]()
        self._http = httpx.Client(base_url=pds.url, trust_env=False, follow_redirects=False)
        self._http.event_hooks = {"response": [self._keep]}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _keep(self, answer: httpx.Response) -> None:
        """Cookies, of which some are Secure: browsers take those from localhost too."""
        for cookie in answer.headers.get_list("set-cookie"):
            name, _, value = cookie.partition(";")[0].partition("=")
            self._jar[name] = value
        self._http.headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self._jar.items())

    def decide(self, url: str, *, allow: bool = True, scope: str = SCOPE) -> dict[str, str]:
        """Sign in at the page that the browser was sent to, and allow or refuse; what the browser comes back with."""
        page = self._http.get(url, headers=_navigating("cross-site"))
        assert page.status_code == 200, page.text
        assert set(dict(parse_qsl(urlsplit(url).query))) == {"client_id", "request_uri"}
        signed_in = self._call(url, "sign-in", username=self._pds.handle, password=self._pds.password, locale="en")
        self._http.headers["authorization"] = f"Bearer {signed_in['ephemeralToken']}"
        decided = self._call(url, "consent", did=self._pds.did, scope=scope) if allow else self._call(url, "reject")
        gone = self._http.get(decided["url"], headers=_navigating("same-origin") | {"referer": url})
        assert gone.status_code == 303, gone.text
        self.location = gone.headers["location"]
        return dict(parse_qsl(urlsplit(self.location).query))

    def _call(self, page: str, name: str, **body: str) -> dict[str, Any]:
        headers = {"origin": self._pds.url, "referer": page, "x-csrf-token": self._jar["csrf-token"]}
        headers |= {"sec-fetch-mode": "same-origin", "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty"}
        answer = self._http.post(f"{_API}/{name}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


def _navigating(site: str) -> dict[str, str]:
    return {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": site}
