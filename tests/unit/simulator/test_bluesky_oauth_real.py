"""OAuth refusals of the fake Bluesky compared with a real server's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.server import SimulatorThread
from tests.support.bluesky_oauth_cases import ASKED, CONFIDENTIAL, OAuthServerSide
from tests.support.bluesky_oauth_client import SCOPE, OAuthClient
from tests.support.bluesky_pds import PdsOwner, start_pds
from tests.support.oauth_client_site import ORIGIN, ClientSite, running_site

pytestmark = [pytest.mark.upstream, pytest.mark.slow]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OAuthServerSide]:
    running = start_pds(tmp_path_factory.mktemp("pds"))
    pds = next(running)

    def consent(page: str, scope: str) -> dict[str, str]:
        with PdsOwner(pds) as owner:
            return owner.decide(pds.url + page, scope=scope)

    yield OAuthServerSide(pds.url, pds.did, consent, pds.stands_at)
    running.close()


@pytest.fixture(scope="module")
def fake() -> Iterator[OAuthServerSide]:
    with SimulatorThread() as simulator:
        made = simulator.lab.add_account("bluesky", handle="alice.test")
        server = simulator.lab.fakes["bluesky"]
        assert isinstance(server, Bluesky)
        origin = simulator.origin("bluesky")

        def consent(page: str, scope: str) -> dict[str, str]:
            server.oauth.consent.without = frozenset(SCOPE.split()) - frozenset(scope.split())
            with httpx.Client(base_url=origin, trust_env=False) as http:
                location = http.get(page).headers["location"]
            return dict(httpx.URL(location).params)

        yield OAuthServerSide(origin, made["did"], consent, server.oauth.clients.stands_at.__setitem__)


@pytest.fixture(scope="module")
def web() -> Iterator[ClientSite]:
    with running_site() as web:
        yield web


# --- What they answer ------------------------------------------------------------------------------------------------

# Where the words are those of a validator of shapes: only the error's name is compared.
SHAPES = {"no client", "a short verifier", "another grant", "that returns in the open", "that returns nowhere"}


def told(answer: httpx.Response) -> dict[str, Any]:
    """What an answer says, without what differs from run to run."""
    text = re.sub(r"http://(localhost|127\.0\.0\.1):\d+", "ORIGIN", answer.text)
    text = re.sub(r"/(oauth|keys)/\d+\.json", r"/\1/N.json", text)
    body = json.loads(text) if text else None
    said = {"status": answer.status_code, "body": body if answer.is_error else sorted(body or {})}
    names = ("www-authenticate", "cache-control")
    return said | {name: answer.headers[name] for name in names if name in answer.headers}


def both(
    real: OAuthServerSide,
    fake: OAuthServerSide,
    case: str,
    ask: Callable[[OAuthServerSide, OAuthClient], httpx.Response],
) -> list[dict[str, Any]]:
    """What the real server says, and the fake."""
    answers = []
    for side in (real, fake):
        with httpx.Client(base_url=side.origin, trust_env=False, timeout=20) as http:
            answers.append(told(ask(side, side.client(http))))
    for answer in answers if case in SHAPES else ():
        del answer["body"]["error_description"]
    return answers


@pytest.mark.parametrize("case", list(ASKED))
def test_the_fake_answers_as_the_real_server_does(real: OAuthServerSide, fake: OAuthServerSide, case: str) -> None:
    theirs, ours = both(real, fake, case, lambda side, client: ASKED[case](client, side))
    assert ours == theirs


@pytest.mark.parametrize("case", list(CONFIDENTIAL))
def test_the_fake_knows_a_confidential_client_as_the_real_server_does(
    real: OAuthServerSide, fake: OAuthServerSide, web: ClientSite, case: str
) -> None:
    for side in (real, fake):
        side.stands_at(ORIGIN, web.url)
    theirs, ours = both(real, fake, case, lambda _, client: CONFIDENTIAL[case](client, web))
    assert ours == theirs
