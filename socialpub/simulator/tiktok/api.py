"""TikTok API basics: envelope, flat token responses, and checks of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from socialpub.simulator.contract import Call, FakeResponse, RefusedError
from socialpub.simulator.oauth import IssuedTokens, OAuthQuirks

MIB = 1024 * 1024
LAST_MAX = 128 * MIB
_PART_MIN, _PART_MAX, _PARTS_MAX = 5_000_000, 64 * MIB, 1000
_PHOTOS_MAX, _TITLE_MAX, _DESCRIPTION_MAX = 35, 90, 4000
_LOG = "202611200000000000000000000000"


# --- Answers -------------------------------------------------------------------------------------------------------


def ok(data: Mapping[str, Any], status: int = 200) -> FakeResponse:
    return FakeResponse(status, {"data": dict(data), "error": {"code": "ok", "message": "", "log_id": _LOG}})


def refuse(status: int, code: str, message: str) -> RefusedError:
    """Build TikTok's refusal, in the API's envelope."""
    return RefusedError(FakeResponse(status, {"data": {}, "error": {"code": code, "message": message, "log_id": _LOG}}))


CODES = {400: "invalid_params", 401: "access_token_invalid", 403: "scope_not_authorized", 404: "invalid_params"}
CODES |= {429: "rate_limit_exceeded"}


def _issued(issue: IssuedTokens) -> FakeResponse:
    body = {
        "open_id": issue.account,
        "scope": ",".join(issue.scopes),
        "access_token": issue.access,
        "expires_in": issue.expires_in,
        "refresh_token": issue.refresh,
        "refresh_expires_in": issue.refresh_expires_in,
        "token_type": "Bearer",
    }
    return FakeResponse(200, body)


def _refused(name: str, message: str) -> FakeResponse:
    """Build the token endpoint's refusal: flat, and sometimes with status 200."""
    body = {"error": name, "error_description": message, "log_id": _LOG}
    return FakeResponse({"invalid_grant": 200, "invalid_client": 401}.get(name, 400), body)


OAUTH_QUIRKS = OAuthQuirks(
    authorize_path="/v2/auth/authorize/",
    token_path="/v2/oauth/token/",
    revoke_path="/v2/oauth/revoke/",
    app_tokens=True,
    client_id_name="client_key",
    access_seconds=7200,
    refreshing="rotating",
    refresh_seconds=15_552_000,
    denial={"error": "access_denied", "error_description": "The user denied the request."},
    scopes_in_callback=True,
    issued=_issued,
    refused=_refused,
)


# --- Reading calls -------------------------------------------------------------------------------------------------


def body_of(call: Call) -> dict[str, Any]:
    found = call.record()
    if found is None:
        raise refuse(400, "invalid_params", "The request body is not a JSON object.")
    return found


def record(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def photo_urls(call: Call) -> Iterable[str]:
    source = record((call.record() or {}).get("source_info"))
    urls = source.get("photo_images")
    return [url for url in urls if isinstance(url, str)] if isinstance(urls, list) else ()


def find_chunk_problem(size: int, chunk: int, count: int) -> str:
    """Describe what is wrong with the chunks of a video, or ""."""
    if size < 1 or chunk < 1 or count != size // chunk or not 1 <= count <= _PARTS_MAX:
        return "The total chunk count is invalid."
    if count == 1 and chunk != size and chunk < _PART_MIN:
        return "The chunk size is invalid."
    if (size > chunk and chunk < _PART_MIN) or chunk > _PART_MAX or size - chunk * (count - 1) > LAST_MAX:
        return "The chunk size is invalid."
    return ""


def find_photo_problem(body: Mapping[str, Any], info: Mapping[str, Any], urls: tuple[str, ...]) -> str:
    """Describe what is wrong with a photo draft, or ""."""
    source = record(body.get("source_info"))
    if (body.get("post_mode"), body.get("media_type"), source.get("source")) != (
        "MEDIA_UPLOAD",
        "PHOTO",
        "PULL_FROM_URL",
    ):
        return "The post mode or media type is invalid."
    if not 1 <= len(urls) <= _PHOTOS_MAX or not 0 <= whole(source.get("photo_cover_index")) < len(urls):
        return "The photo images are invalid."
    lengths = {"title": _TITLE_MAX, "description": _DESCRIPTION_MAX}
    if any(len(str(info.get(key, "")).encode("utf-16-le")) // 2 > limit for key, limit in lengths.items()):
        return "The post info is invalid."
    return ""
