"""Redirect and message after a form has published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from socialpub.web.dashboard.parts.layout import redirect_with_flash
from socialpub.web.http.handler import HandlerResponse, RequestContext


def redirect_to_posts(call: RequestContext, batch: Mapping[str, Any]) -> HandlerResponse:
    """Redirect to the post, or to the posts of the batch."""
    results = batch["results"]
    where = f"/posts/{results[0]['postId']}" if len(results) == 1 else f"/posts?batchId={batch['id']}"
    states = [result["status"] for result in results]
    return redirect_with_flash(call, where, _outcome(states), good=not {"failed", "rejected"} & set(states))


def _outcome(states: Sequence[str]) -> str:
    published, failed = states.count("published"), sum(state in ("failed", "rejected") for state in states)
    if "queued" in states:
        return "Post scheduled." if len(states) == 1 else f"{len(states)} posts scheduled."
    if published == len(states):
        return "Post published." if published == 1 else f"Published to all {published} accounts."
    if failed == len(states):
        return "The post was not published. See the reason below."
    if failed:
        return f"{published} of {len(states)} posts were published. See the reasons below."
    return "Publishing. This page shows the outcome."
