"""Plans that this process has made, so that a person can be shown what one would publish."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

KEPT = 200
QUESTION_CHARACTERS = 8_000
UNKNOWN = (
    "Publish this plan? It was checked before this process started, so its content cannot be shown here: {plan}. "
    "If in doubt, decline and check the post again."
)


class CheckedPlans:
    """Questions about the newest plans, by token; the oldest are forgotten."""

    def __init__(self, kept: int = KEPT) -> None:
        self._questions: OrderedDict[str, str] = OrderedDict()
        self._kept = kept

    def keep(self, plan: str, content: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> None:
        """Remember what a plan publishes."""
        self._questions[plan] = build_question(content, results)
        while len(self._questions) > self._kept:
            self._questions.popitem(last=False)

    def question(self, plan: str) -> str:
        """Return the question whether to publish a plan."""
        return self._questions.get(plan) or UNKNOWN.format(plan=plan)


def build_question(content: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    """Return a question that shows accounts, texts, media and time."""
    accounts = [f"{row.get('name') or row['account']} ({row['platform']})" for row in results]
    lines = [
        f"Publish on {len(accounts)} account(s): {', '.join(accounts)}",
        f"When: {content.get('scheduledAt') or 'now'}",
    ]
    lines += _content_lines("", content)
    lines += [f"Then, as a reply: {piece['text']}" for piece in content.get("thread", ())]
    if "firstComment" in content:
        lines.append(f"First comment: {content['firstComment']['text']}")
    for target, row in zip(content["targets"], results, strict=True):
        lines += _content_lines(f"Only for {row.get('name') or row['account']} ({row['platform']}): ", target)
    question = "\n".join(lines)
    left = len(question) - QUESTION_CHARACTERS
    return question if left <= 0 else f"{question[:QUESTION_CHARACTERS]}\n({left} more characters)"


def _content_lines(where: str, content: Mapping[str, Any]) -> list[str]:
    lines = [f"{where}Text: {content['text']}"] if "text" in content else []
    if "media" in content:
        shown = [f"{item['mediaId']} ({item.get('altText') or 'no description'})" for item in content["media"]]
        lines.append(f"{where}Media: {', '.join(shown) or 'none'}")
    if "options" in content:
        lines.append(f"{where}Options: {content['options']}")
    return lines
