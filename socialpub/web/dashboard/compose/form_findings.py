"""Problems of a form of the composer, by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.platforms.contract import Board
from socialpub.web.dashboard.compose.form_data import Form
from socialpub.web.dashboard.parts import compose_form
from socialpub.web.dashboard.parts.compose_form import FieldMessage, FieldMessages


@dataclass(frozen=True)
class FormFindings:
    """Errors and warnings of a form by field, boards by account, and a summary in `words`.

    `is_sent`: the form's Idempotency-Key was used, so the form gets a new one.
    """

    wrong: FieldMessages = field(default_factory=dict)
    warned: FieldMessages = field(default_factory=dict)
    words: str = ""
    status: int = 200
    is_sent: bool = False
    boards: Mapping[str, Sequence[Board]] = field(default_factory=dict)  # by account id
    previews: Sequence[Mapping[str, Any]] = ()  # of each target, as its platform would be sent it
    command: str = ""  # the form as a request of the API
    conflict: str = ""  # the ETag of the edited item, where it has changed since the form was filled


NO_FINDINGS = FormFindings()


def explain_refusal(error: ApiError, given: Form, undone: str = "published") -> FormFindings:
    """Return an error as findings. Raises it if the session has ended.

    `undone`: what the form was sent for.
    """
    if error.code == "unauthenticated":
        raise error
    if error.rule == "idempotency_key.body_mismatch":
        said = FieldMessage(
            "You already sent this form and have changed it since. The sent version is under Posts. To publish the "
            "changed version as another post, send the form again."
        )
        return FormFindings({compose_form.TOP: [said]}, status=error.status, is_sent=True)
    if error.rule == "http.if_match":
        words = "Nothing was saved: it was changed elsewhere since you opened it."
        return FormFindings(words=words, status=error.status, conflict=error.headers["ETag"])
    wrong = compose_form.place_errors(error, given)
    words = f"Nothing was {undone}."
    if error.rule != "post.status":  # nothing can be corrected
        words += " Correct the marked problems and try again."
    if given.get("boards"):
        words = ""
    return FormFindings(wrong, words=words, status=error.status)
