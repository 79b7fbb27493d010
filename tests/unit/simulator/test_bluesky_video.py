"""Video service of the fake Bluesky: upload permission, processing jobs, blobs."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from socialpub.simulator.bluesky import Bluesky
from tests.support.bluesky_user import BlueskyUser, make_record
from tests.support.fixed_clock import FixedClock
from tests.support.platforms.meta_calls import mp4

UPLOAD, LIMITS = "com.atproto.repo.uploadBlob", "app.bsky.video.getUploadLimits"
FILM = mp4()


def service(alice: BlueskyUser) -> str:
    return "did:web:" + alice.simulator.origin("bluesky").removeprefix("http://").replace(":", "%3A")


def token(alice: BlueskyUser, method: str, audience: str = "") -> str:
    wanted = {"aud": audience or service(alice), "lxm": method}
    nsid = "/xrpc/com.atproto.server.getServiceAuth"
    return str(alice.client.get(nsid, params=wanted, headers=alice.headers()).json()["token"])


def upload(alice: BlueskyUser, content: bytes = FILM, *, bearer: str = "", **params: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {bearer or token(alice, UPLOAD)}", "content-type": "video/mp4"}
    wanted = {"did": alice.did, "name": "a.mp4"} | params
    return alice.client.post("/xrpc/app.bsky.video.uploadVideo", params=wanted, content=content, headers=headers)


def status(alice: BlueskyUser, job: dict[str, Any]) -> dict[str, Any]:
    answer = alice.client.get("/xrpc/app.bsky.video.getJobStatus", params={"jobId": job["jobId"]})
    return dict(answer.json()["jobStatus"])


def fake(alice: BlueskyUser) -> Bluesky:
    found = alice.simulator.lab.fake("bluesky")
    assert isinstance(found, Bluesky)
    return found


def test_a_video_is_made_while_time_passes_and_its_blob_goes_into_a_post(alice: BlueskyUser, clock: FixedClock) -> None:
    job = upload(alice).json()
    assert (job["did"], job["state"]) == (alice.did, "JOB_STATE_ENCODING")
    clock.ms += 299
    assert status(alice, job) == job
    clock.ms += 1
    done = status(alice, job)
    assert (done["state"], done["blob"]["mimeType"], done["blob"]["size"]) == (
        "JOB_STATE_COMPLETED",
        "video/mp4",
        len(FILM),
    )
    embed = {"$type": "app.bsky.embed.video", "video": done["blob"]}
    assert alice.write("createRecord", make_record(embed=embed)).status_code == 200
    (entry,) = alice.simulator.lab.ledger.posts()
    assert [(medium.type, medium.size) for medium in entry.media] == [("video/mp4", len(FILM))]


def test_a_video_that_was_made_before_is_an_error_with_its_blob(alice: BlueskyUser, clock: FixedClock) -> None:
    job = upload(alice).json()
    assert upload(alice).json() == job  # still being made
    clock.ms += 300
    again = upload(alice)
    assert (again.status_code, again.json()["error"]) == (409, "already_exists")
    assert again.json()["blob"] == status(alice, job)["blob"]


def test_a_job_may_fail(alice: BlueskyUser, clock: FixedClock) -> None:
    fake(alice).videos.failing.append("The video is broken")
    job = upload(alice).json()
    clock.ms += 300
    told = status(alice, job)
    assert (told["state"], told["message"], "blob" in told) == ("JOB_STATE_FAILED", "The video is broken", False)


def limits(alice: BlueskyUser, bearer: str) -> httpx.Response:
    return alice.client.get(f"/xrpc/{LIMITS}", headers={"authorization": f"Bearer {bearer}"})


def test_the_limits_say_whether_an_upload_is_allowed(alice: BlueskyUser) -> None:
    assert limits(alice, token(alice, LIMITS)).json()["canUpload"] is True
    fake(alice).videos.refusing = "Please verify your email"
    assert limits(alice, token(alice, LIMITS)).json() == {"canUpload": False, "message": "Please verify your email"}
    alice.simulator.lab.reset()
    assert limits(alice, token(alice, LIMITS)).json()["canUpload"] is True


def forged(real: str) -> str:
    head, body, seal = real.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "==")) | {"exp": 99_999_999_999}
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.{seal}"


def test_only_a_service_token_for_this_service_and_method_is_taken(alice: BlueskyUser, clock: FixedClock) -> None:
    good = token(alice, UPLOAD)
    refused = {
        "BadJwt": [str(alice.session["accessJwt"]), "x", "a.b.c", forged(good)],
        "BadJwtAudience": [token(alice, UPLOAD, "did:web:elsewhere.example")],
        "BadJwtLexiconMethod": [token(alice, LIMITS)],
    }
    for name, bearers in refused.items():
        for bearer in bearers:
            answer = upload(alice, bearer=bearer)
            assert (answer.status_code, answer.json()["error"]) == (401, name), bearer
    clock.ms += 60_000
    assert upload(alice, bearer=good).json()["error"] == "JwtExpired"


@pytest.mark.parametrize("params", [{"did": "did:plc:somebodyelse234567abcdefg"}, {"name": ""}])
def test_the_upload_names_the_account_and_the_file(alice: BlueskyUser, params: dict[str, str]) -> None:
    assert upload(alice, **params).json()["error"] == "InvalidRequest"


def test_what_is_no_video_is_refused_and_an_unknown_job_is_not_found(alice: BlueskyUser) -> None:
    assert upload(alice, b"\x89PNG\r\n\x1a\n").json()["error"] == "UnsupportedContentType"
    answer = alice.client.get("/xrpc/app.bsky.video.getJobStatus", params={"jobId": "nothing"})
    assert (answer.status_code, answer.json()["error"]) == (400, "NotFound")
