"""`socialpub post`: publish, check, or show the request."""

from __future__ import annotations

from typing import Any

from socialpub_client import errors
from socialpub_client.client import Socialpub
from socialpub_client.commands import content_options as content
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.exit_codes import AUTHENTICATION, DONE, FAILED, PARTLY, REFUSED, UNKNOWN
from socialpub_client.commands.runner import Output, connect, new_key, writing
from socialpub_client.commands.shown_requests import RequestRecorder

Json = dict[str, Any]
ANSWER_WAIT = 25  # seconds that the server waits for the platforms before it answers
UNKNOWN_RULE = "publish.outcome_unknown"


def post(options: ApiOptions) -> Output:
    """Publish a text, or do what `--check` and `--show-request` say instead."""
    if options.wait is not None and options.no_wait:
        options.usage("give --wait or --no-wait, not both")
    if options.wait is not None and options.at is not None:
        options.usage("--wait cannot wait for a scheduled post: see it by `socialpub posts list`")
    given: Json = {
        "text": content.read_text(options, options.text),
        "media": content.read_media(options),
        "at": content.read_time(options),
        "first_comment": options.first_comment,
        "thread": content.read_thread(options),
        "external_id": options.external_id,
        "on_duplicate": options.on_duplicate,
    }
    key = new_key(options)
    if options.show_request:
        return _show_request(options, given, key)
    client = connect(options)
    given["to"] = content.read_targets(options, client)
    if options.check:
        check = client.posts.check(**given)
        return Output(dict(check.raw), lines=_format_check, code=DONE if check.ok else _code_of_check(check.raw))
    with writing(key):
        return _publish(options, client, given, key)


def _publish(options: ApiOptions, client: Socialpub, given: Json, key: str) -> Output:
    if options.wait is None:
        wait = 0 if options.no_wait else ANSWER_WAIT
        batch = dict(client.posts.publish(**given, idempotency_key=key, wait=wait).raw)
        return Output(batch, lines=format_batch, code=code_of_batch(batch), wrote=True)
    try:
        batch = dict(client.posts.publish_and_wait(**given, idempotency_key=key, timeout=options.wait).raw)
    except errors.WaitTimedOut as error:
        batch = dict(error.batch.raw)
        note = f"socialpub: {error.message} It goes on: see `socialpub posts list --batch {error.batch.id}`."
        return Output(batch, lines=format_batch, code=UNKNOWN, wrote=True, notes=[note])
    return Output(batch, lines=format_batch, code=code_of_batch(batch), wrote=True)


def _show_request(options: ApiOptions, given: Json, key: str) -> Output:
    from socialpub_client.http_transport import HttpTransport

    recorder = RequestRecorder(HttpTransport())
    client = connect(options, recorder)
    given["to"] = content.read_targets(options, client)
    if options.check:
        client.posts.check(**given)
    else:
        client.posts.publish(**given, idempotency_key=key, wait=0 if options.no_wait else ANSWER_WAIT)
    return Output(recorder.lines, lines=list, verbatim=True)


# --- Outcomes ------------------------------------------------------------------------------------------------------


def code_of_batch(batch: Json) -> int:
    """Return the exit code of a batch: by its targets and the pieces of their threads."""
    rows = [row for result in batch["results"] for row in (result, *result.get("thread", ()))]
    ended = [row for row in rows if row["status"] in ("failed", "rejected", "canceled")]
    if any(row.get("error", {}).get("rule") == UNKNOWN_RULE for row in ended):
        return UNKNOWN
    if not ended:
        return DONE
    if len(ended) < len(rows):
        return PARTLY
    all_refused = all(row.get("error", {}).get("code") == "platform_auth_failed" for row in ended)
    return AUTHENTICATION if all_refused else FAILED


def format_batch(batch: Json) -> list[str]:
    """Format a batch for people: a line for each target, with what to do about failures."""
    lines = list[str]()
    for result in batch["results"]:
        where = result.get("url") or result.get("uri") or batch.get("scheduledAt") or ""
        lines.append("  ".join(filter(None, (result["status"], result["platform"], result["postId"], where))))
        for row in (result, *result.get("thread", ())):
            lines += [f"  {note['message']}" for note in row.get("warnings", ())]
            if error := row.get("error"):
                lines += [f"  {text}" for text in (error["message"], error.get("remediation")) if text]
    return lines


def _code_of_check(check: Any) -> int:
    found = [error["code"] for result in check["results"] for error in result["errors"]]
    return AUTHENTICATION if found and set(found) == {"platform_auth_failed"} else REFUSED


def _format_check(check: Json) -> list[str]:
    lines = list[str]()
    for result in check["results"]:
        lines.append(f"{'valid' if result['valid'] else 'refused'}  {result['platform']}  {result['accountId']}")
        for row in (*result["errors"], *result["warnings"]):
            lines += [f"  {text}" for text in (row["message"], row.get("remediation")) if text]
    return lines
