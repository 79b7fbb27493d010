"""Thread of a form: its posts after the first, and which files belong to which post.

Each post has a number: 0 for the first, whose text is the field `text`; field `piece.N` is the text of number N.
Field `in.MEDIA` is the number of a file's post, empty for the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import PIECES_MAX

ADD = "piece"
"""Value of `do` that adds a post."""
_NUMBERED = re.compile(r"piece\.([1-9][0-9]?)", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]?", re.ASCII)


def name_piece(number: int) -> str:
    """Return the name of the field with a piece's text."""
    return f"piece.{number}"


def list_numbers(form: Mapping[str, str]) -> list[int]:
    """Return the numbers of the pieces in order, at most one more than the API takes."""
    found = {int(match[1]) for name in form if (match := _NUMBERED.fullmatch(name))}
    return sorted(found)[: PIECES_MAX + 1]


def find_number(form: Mapping[str, str], media: str) -> int:
    """Return the number of the post that a file belongs to."""
    given = form.get(f"in.{media}", "")
    return int(given) if _NUMBER.fullmatch(given) and name_piece(int(given)) in form else 0


def arrange(form: Mapping[str, str], media: Sequence[str]) -> dict[str, str]:
    """Return the form after its buttons of pieces, with numbers without gaps.

    `piece-remove` drops a piece and its files, `piece-earlier` swaps one with the post before it, `do=piece` adds one.
    `media`: the form's files in order.
    """
    texts = {0: form.get("text", "")} | {number: form[name_piece(number)] for number in list_numbers(form)}
    order = [number for number in texts if not number or str(number) != form.get("piece-remove")]
    for index, number in enumerate(order):
        if index and str(number) == form.get("piece-earlier"):
            order[index - 1 : index + 1] = number, order[index - 1]
            break
    rest = {name: value for name, value in form.items() if not name.startswith(("piece", "in.", "media."))}
    arranged = rest | {name_piece(index): texts[number] for index, number in enumerate(order) if index}
    if form.get("do") == ADD and len(order) <= PIECES_MAX:
        arranged[name_piece(len(order))] = ""
    kept = [(each, find_number(form, each)) for each in media]
    placed = [(each, order.index(number)) for each, number in kept if number in order]
    arranged |= {f"media.{index}": each for index, (each, _) in enumerate(placed, 1)}
    arranged |= {f"in.{each}": str(number) for each, number in placed if number}
    return arranged | ({"text": texts[order[0]]} if "text" in form or order[0] else {})


def build_thread(form: Mapping[str, str], texts: Mapping[int, str], items: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pieces as the API takes them, without empty ones at the end.

    `texts`: by number; `items`: the form's media by name. Raises ApiError for another piece without text.
    """
    pieces: list[dict[str, Any]] = []
    for number, text in texts.items():
        media = [item for each, item in items.items() if find_number(form, each) == number]
        pieces.append({"text": text} | ({"media": media} if media else {}))
    while pieces and not pieces[-1]["text"].strip() and "media" not in pieces[-1]:
        pieces.pop()
    for index, piece in enumerate(pieces):
        if not piece["text"].strip():
            raise _build_empty_error(index)
    return pieces


def _build_empty_error(index: int) -> ApiError:
    message = f"Post {index + 2} of the thread has no text. Write one, or remove the post."
    issue = validation.build_issue("string_too_short", ["thread", index, "text"], message, "min length 1", "string")
    rule = f"thread.{index}.text"
    return ApiError("validation_failed", message, rule=rule, remediation="", platform_response=[issue])
