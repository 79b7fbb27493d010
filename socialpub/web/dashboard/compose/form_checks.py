"""Buttons that publish nothing: check, show as an API request, list an account's boards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from socialpub.base.errors import ApiError
from socialpub.domain.accounts import accounts
from socialpub.domain.posts import preflight
from socialpub.domain.posts.targets import ResolvedTarget
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import ValidateRequest, ValidationResult
from socialpub.web.api.accounts import fetch_boards
from socialpub.web.dashboard.compose.form_data import Form
from socialpub.web.dashboard.compose.form_findings import NO_FINDINGS, FormFindings, explain_refusal
from socialpub.web.dashboard.compose.form_request import build_request
from socialpub.web.dashboard.parts import compose_form, draft_view
from socialpub.web.docs.reference import build_curl
from socialpub.web.http.handler import RequestContext

TIME_FIELDS = ("scheduledAt", "slot", "profileId")
"""Fields of a request that say when."""


async def check(call: RequestContext, given: Form) -> FormFindings:
    """Return the findings of POST /v1/posts/validate for the form.

    While it is being written (`do=live`), files are not read again, and where nothing is written, or the check itself
    is refused, there are no findings, or only those of the form's fields.
    """
    is_live = given["do"] == "live"
    try:
        with await call.enter_checking():
            content = await build_request(call, given)
            if is_live and (not content["targets"] or content.keys() <= {"targets", *TIME_FIELDS}):
                return NO_FINDINGS
            request = validation.parse_object(ValidateRequest, {**content, "deep": not is_live})
            draft = await preflight.check_request(call.service, call.scope, request, {})
        results = await preflight.validate_each(call.service, call.engine.fetched, call.scope, draft, {})
    except ApiError as error:
        refused = explain_refusal(error, given)
        return replace(refused, words="", status=200) if is_live else refused
    for target, result in results if is_live else ():
        known = preflight.list_stored_errors(call.service, target, {})
        result["errors"] += [preflight.build_target_error(call.service, target, error) for error in known]
    found = await _place_results(call, given, results)
    chosen = {result["accountId"] for _, result in results}
    rejecting = len(chosen & found.wrong.keys())
    if is_live and not rejecting:
        return replace(found, words="No problems found so far.")
    return replace(found, words=_summary(len(chosen), rejecting, len(found.warned)))


async def _place_results(
    call: RequestContext, given: Form, results: Sequence[tuple[ResolvedTarget, ValidationResult]]
) -> FormFindings:
    """Return the errors and warnings by place, and the previews of the targets."""
    wrong, warned = compose_form.place_preflight([(target.piece, result) for target, result in results], given)
    targets = [target for target, _ in results]
    previews = await call.service.read(lambda: draft_view.build_targets(call.service, targets))
    return FormFindings(wrong, warned, previews=previews)


async def write_command(call: RequestContext, given: Form) -> FormFindings:
    """Return the command that publishes the form over the API."""
    try:
        body = await build_request(call, given)
    except ApiError as error:
        return explain_refusal(error, given)
    return FormFindings(command=build_curl("POST", f"{call.service.base_url}/v1/posts", [{"apiKey": []}], body))


async def load_boards(call: RequestContext, given: Form) -> FormFindings:
    """Return the current boards of an account."""
    try:
        row = await call.service.read(lambda: accounts.find(call.scope, given["boards"]))
        found = await fetch_boards(call, row)
    except ApiError as error:
        return explain_refusal(error, given)
    return FormFindings(boards={row["id"]: found})


def _summary(accounts: int, rejecting: int, warning: int) -> str:
    if rejecting == accounts == 1:
        return "The account would reject this post. See the problems under the account."
    if rejecting:
        return f"{rejecting} of {accounts} accounts would reject this post. See the problems under each account."
    where = "the account" if accounts == 1 else f"all {accounts} accounts"
    rest = " See the warnings first." if warning else ""
    return f"Ready to publish to {where}.{rest}"
