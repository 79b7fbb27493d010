"""Validation errors of requests, from pydantic and across fields, as the API reports them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from socialpub import platforms
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.value_formats import EMAIL_PATTERN
from socialpub.domain.schemas import bounded_json, field_suggestions
from socialpub.domain.schemas.common import (
    EXTERNAL_ID_PATTERN,
    MEDIA_ID_PATTERN,
    NAME_PATTERN,
    PLAN_TOKEN_PATTERN,
    UUID_PATTERN,
)
from socialpub.domain.schemas.drafts import DraftChange, DraftContent
from socialpub.domain.schemas.notifications import (
    BOT_TOKEN_PATTERN,
    CHANNEL_ID_PATTERN,
    CHAT_ID_PATTERN,
    NTFY_SERVER_PATTERN,
    NTFY_TOKEN_PATTERN,
    NTFY_TOPIC_PATTERN,
    TARGET_MODELS,
)
from socialpub.domain.schemas.posts import TARGETS_MAX, BatchRequest, PlanRequest, PublishRequest
from socialpub.domain.schemas.slots import SLOT_TIME_PATTERN
from socialpub.domain.schemas.webhooks import ENDPOINT_ID_PATTERN

M = TypeVar("M", bound=BaseModel)
ISSUES_MAX = 100  # shown per request
NAME_MAX = 100  # characters of an unknown name
HINTS_MAX = 10


def parse_body(model: type[M], body: bytes) -> M:
    """Parse `body`.

    Raises ApiError `validation_failed` with all issues, or rule `body.json`, `targets.max`.
    """
    return parse_value(model, bounded_json.load(body))


def parse_value(model: type[M], value: Any) -> M:
    """Validate the value of a body.

    Raises ApiError `validation_failed` with all issues, or rule `targets.max`.
    """
    if model is PublishRequest and isinstance(value, dict) and "plan" in value:
        plan = parse_object(PlanRequest, value).plan
        return cast(M, PublishRequest.model_construct({"plan"}, targets=[], plan=plan))
    request = find_publish_request(model, value)
    if request and isinstance(targets := request.get("targets"), list) and len(targets) > TARGETS_MAX:
        raise rule_error("targets.max")  # before each target is validated
    is_complete = isinstance(value, dict) and issubclass(model, BatchRequest) and not issubclass(model, DraftContent)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _convert_error(model, error, lambda: list_publish_issues(value) if is_complete else []) from error


def find_publish_request(model: type[BaseModel], value: Any) -> dict[str, Any] | None:
    """Return the publish request or draft content that a body of this model has."""
    if issubclass(model, DraftChange) and isinstance(value, dict):
        value = value.get("content")
    elif not issubclass(model, BatchRequest):
        return None
    return value if isinstance(value, dict) else None


def list_publish_issues(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List cross-field violations of a publish request, from the request as sent.

    A target needs an account or platform, and something to publish.
    """
    given = request.get("targets")
    targets = {n: found for n, found in enumerate(given) if isinstance(found, dict)} if isinstance(given, list) else {}
    issues = [
        build_issue("missing", ["targets", n, "accountId"], "Name an accountId or a platform", "a UUID", "nothing")
        for n, target in targets.items()
        if "accountId" not in target and "platform" not in target
    ]
    if any(_is_empty_target(request, target) for target in targets.values()):
        issues.append(build_issue("missing", ["text"], "There is nothing to publish", "string", "nothing"))
    return issues


def _is_empty_target(request: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    media = target.get("media", request.get("media"))
    return not ("text" in target or "text" in request or media or "options" in target)


def parse_object(model: type[M], value: Mapping[str, Any]) -> M:
    """Validate an object, such as query parameters. Raises ApiError `validation_failed`."""
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        raise _convert_error(model, error) from error


def _convert_error(
    model: type[BaseModel], error: ValidationError, more: Callable[[], list[dict[str, Any]]] = list
) -> ApiError:
    """Convert pydantic's issues, then `more`; `rule` is the path of the first."""
    raw = error.errors(include_url=False)[:ISSUES_MAX]
    shown = [_convert_issue(entry) for entry in raw]
    hinted = [n for n, entry in enumerate(raw) if entry["type"] in _HINTED_TYPES][:HINTS_MAX]
    hints = filter(None, (_add_hint(model, raw[n], shown[n]) for n in hinted))
    return build_schema_error([*shown, *more()][:ISSUES_MAX], " ".join(hints) or None)


def _add_hint(model: type[BaseModel], entry: Any, shown: dict[str, Any]) -> str | None:
    """Add advice about an unknown field or value to its issue; return it as a sentence."""
    loc, path = entry["loc"], ".".join(map(str, shown["path"]))
    if entry["type"] == "extra_forbidden":
        advice = field_suggestions.suggest_field(model, [*loc[:-1], shorten(str(loc[-1]))])
        shown["message"] = f"{shown['message']}; {advice}"
        what = f"There is no field `{path}`" if loc[-1] else "There is a field without a name"
        return _end_sentence(f"{what}; {advice}")
    given = entry["ctx"].get("tag", entry["input"])
    meant = (
        field_suggestions.suggest_value(shorten(given), _QUOTED.findall(shown["expected"]))
        if isinstance(given, str)
        else None
    )
    if meant is None:
        return None
    shown["message"] = f"{shown['message']}; did you mean `{meant}`?"
    return f"`{path}`: did you mean `{meant}`?"


def _end_sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def _convert_issue(entry: Any) -> dict[str, Any]:
    """Convert an issue; a missing or unknown union tag becomes an issue of the tag field."""
    kind = _TYPE_ALIASES.get(entry["type"], entry["type"])
    path, ctx = _strip_tags(entry["loc"]), entry.get("ctx", {})
    if kind == "union_tag_not_found":
        tag = ctx["discriminator"].strip("'")
        return build_issue("missing", [*path, tag], _TAG_MESSAGES[tag], _EXPECTED_TEXTS["missing"], "nothing")
    if kind == "union_tag_invalid":
        tag, tags = ctx["discriminator"].strip("'"), ctx["expected_tags"]
        return build_issue("literal_error", [*path, tag], f"Input should be one of {tags}", tags, "string")
    expected = _describe_expected(kind, ctx)
    message = _MESSAGES.get(kind, entry["msg"].removeprefix("Value error, "))
    if kind == "string_pattern_mismatch":
        message = f"Input should be {expected}"
    return build_issue(kind, path, message, expected, _describe_received(entry))


def _strip_tags(loc: Sequence[str | int]) -> list[str | int]:
    """Strip the union tags from pydantic's location."""
    path: list[str | int] = []
    for part in loc:
        is_tag = str(part).startswith("<") or part in field_suggestions.UNION_MODELS.get(path[-1] if path else None, ())
        if not is_tag:
            path.append(shorten(part) if isinstance(part, str) else part)
    return path


def shorten(name: str) -> str:
    """Shorten a name from the request."""
    return name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"


def build_schema_error(issues: list[dict[str, Any]], remediation: str | None = None) -> ApiError:
    """Build `validation_failed` from at least one issue."""
    path = ".".join(str(part) or '""' for part in issues[0]["path"])  # a name may be empty
    return ApiError(
        "validation_failed",
        _end_sentence(f"{path or 'The body'}: {issues[0]['message']}"),
        rule=path or "body",
        platform_response=issues,
        remediation=remediation,
    )


def build_issue(code: str, path: Sequence[str | int], message: str, expected: str, received: str) -> dict[str, Any]:
    return {"code": code, "expected": expected, "received": received, "path": list(path), "message": message}


_HINTED_TYPES = ("extra_forbidden", "literal_error", "union_tag_invalid")
_QUOTED = re.compile("'([^']*)'")  # values in pydantic's list of allowed values
_EXPECTED_TEXTS = {
    "missing": "a value",
    "extra_forbidden": "no such field",
    "value_error": "what the message says",
    "model_type": "object",
    "dict_type": "object",
    "list_type": "array",
    "bool_type": "boolean",
    "int_type": "integer",
}


_TAG_MESSAGES = {
    "platform": f"Name the platform whose options these are: {', '.join(platforms.PLATFORMS)}",
    "kind": f"Name the kind of channel: {', '.join(TARGET_MODELS)}",
}
_TYPE_ALIASES = {"model_attributes_type": "dict_type"}  # pydantic's errors for Python objects, as those for JSON
_MESSAGES = {
    "missing": "Field required",
    "extra_forbidden": "There is no such field",
    **dict.fromkeys(("model_type", "dict_type"), "Input should be an object"),
    "list_type": "Input should be a valid array",
}
_PATTERN_TEXTS = {
    UUID_PATTERN: "a UUID",
    EXTERNAL_ID_PATTERN: "letters, digits and . _ : / @ - only",
    PLAN_TOKEN_PATTERN: "a plan's token: plan_ and 43 letters or digits",
    MEDIA_ID_PATTERN: "a media id: med_ and 22 letters or digits",
    NAME_PATTERN: "more than blanks",
    EMAIL_PATTERN: "an e-mail address and nothing else, such as ann@example.com",
    NTFY_SERVER_PATTERN: "the address of an ntfy server without a path, such as https://ntfy.example.com",
    NTFY_TOPIC_PATTERN: "the name of a topic: up to 64 letters, digits, hyphens or underscores",
    NTFY_TOKEN_PATTERN: "an access token, as ntfy shows it",
    BOT_TOKEN_PATTERN: "a bot's token as BotFather gave it: a number, a colon, and 20 characters or more",
    CHAT_ID_PATTERN: "a chat's number, or the @name of a public channel",
    ENDPOINT_ID_PATTERN: "an endpoint's id: whe_ and 22 letters or digits",
    SLOT_TIME_PATTERN: "a time of 24 hours, such as 09:30",
    CHANNEL_ID_PATTERN: "a channel's id: nch_ and 22 letters or digits",
}


def _describe_expected(kind: str, ctx: Mapping[str, Any]) -> str:
    if "expected" in ctx:
        return str(ctx["expected"])
    if "pattern" in ctx:
        return _PATTERN_TEXTS.get(ctx["pattern"], f"a string that matches {ctx['pattern']}")
    for name in ("min_length", "max_length", "ge", "le", "gt", "lt"):
        if name in ctx:
            return f"{name.replace('_', ' ')} {ctx[name]}"
    return _EXPECTED_TEXTS.get(kind, kind.split("_")[0])


def _describe_received(entry: Mapping[str, Any]) -> str:
    if entry["type"] == "missing":
        return "nothing"
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    value = entry.get("input")
    return "null" if value is None else names.get(type(value), "object")
