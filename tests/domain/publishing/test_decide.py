"""The protocol's decisions: every combination of answer, send class, intent and time has one step, and the right one.

`ROWS` says the table a second time, as conditions of which exactly one may hold; the laws say what must never happen,
whatever the table; and a platform that loses and delays is walked through step by step.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.publishing import decide as table
from socialpub.domain.publishing.decide import (
    Bind,
    Compare,
    Compared,
    Doubt,
    Doubted,
    Duplicate,
    Finding,
    Follow,
    Look,
    Looked,
    LookLater,
    NotSeen,
    NotThere,
    Refused,
    Resend,
    Resumed,
    Sent,
    Step,
    Wait,
    decide,
)
from socialpub.domain.publishing.horizon import checks_of
from socialpub.domain.publishing.intents import REFUSAL
from socialpub.platforms.contract import CONTAINER, KEY, NO_KEY, Absent, Pending, Published, SendClass, Unknown

NOON = 1_795_176_000_000
HORIZON = 180.0
SLACK_MS = 300_000
ENDS_KNOWN = (Refused, NotThere)
ENDS_UNKNOWN = (NotSeen, Duplicate)
PUBLISHED, PENDING, ABSENT = Published("post-1"), Pending({}, 6), Absent({"listed": 20})
UNKNOWN, FINAL = Unknown({"status": 503}), Unknown({"read": "not allowed"}, final=True)
FOUND = (PUBLISHED, PENDING, ABSENT, UNKNOWN, FINAL)


def failure(
    outcome: Outcome | None, *, duplicate: bool = False, absent: bool = False, response: bool = True
) -> ApiError:
    said = {"status": 500} if response else None
    return ApiError(
        "platform_unavailable", "no", outcome=outcome, duplicate=duplicate, absent=absent, platform_response=said
    )


def kept(outcome: Outcome) -> str:
    """A refusal as an intent keeps it."""
    error = failure(outcome)
    return json.dumps({name: getattr(error, name) for name in REFUSAL}, default=str)


@dataclass(frozen=True, slots=True)
class Case:
    answer: Finding
    class_: SendClass
    checks: tuple[float, ...]
    intent: Any
    now: int

    def step(self) -> Step:
        return decide(self.answer, self.class_, self.checks, self.intent, self.now)

    # --- What the rows and the laws ask ---

    @property
    def error(self) -> ApiError | None:
        return (
            self.answer.answer if isinstance(self.answer, Sent) and isinstance(self.answer.answer, ApiError) else None
        )

    @property
    def found(self) -> Any:
        return self.answer.found if isinstance(self.answer, Looked) else None

    @property
    def revoked(self) -> bool:
        return bool(getattr(self.answer, "revoked", False))

    @property
    def is_last_look(self) -> bool:
        return bool(self.intent["looks"] + 1 >= len(self.checks))

    @property
    def is_late(self) -> bool:
        return bool(self.now > self.intent["intent_at"] + self.checks[-1] * 1000 + SLACK_MS)

    @property
    def said_no(self) -> bool:
        """Every send was answered, and a refusal is kept."""
        return bool(self.intent["answered"] and self.intent["refusal"])

    @property
    def is_clear(self) -> bool:
        """The send's answer says that nothing of it is there, and no earlier one is open."""
        if self.error is None or not self.answer.earlier_over:  # type: ignore[union-attr]
            return False
        if self.error.outcome is Outcome.NOT_SENT:
            return True
        refused = self.error.outcome in (Outcome.REJECTED, Outcome.THROTTLED)
        return refused and (self.class_ is not CONTAINER or self.error.absent)

    @property
    def may_resend(self) -> bool:
        most = self.class_.answered_resends if self.intent["answered"] else self.class_.resends
        in_time = self.now <= self.intent["intent_at"] + self.class_.checks[-1] * 1000
        return in_time and self.intent["sends"] <= most and not self.intent["refusal"] and not self.is_last_look

    @property
    def is_proof(self) -> bool:
        """Not finding it shows that it is not there."""
        over = bool(self.intent["answered"]) or self.is_last_look
        return (self.class_ is KEY and over and not self.is_late) or (
            self.class_ is CONTAINER and (over or self.is_late)
        )

    @property
    def is_due(self) -> bool:
        """Whether it is time to look, without an earlier look to keep a distance from."""
        at, looks = self.intent["intent_at"], self.intent["looks"]
        if isinstance(self.answer, Resumed):
            due = at + self.checks[min(looks, len(self.checks) - 1)] * 1000
            return self.answer.revoked or self.now < at or self.now >= due
        if looks >= len(self.checks) or (looks and self.is_late):
            return True
        # A look keeps its distance from the one before it, so only a first one can be due already.
        return looks == 0 and (self.now < at or self.now >= at + self.checks[0] * 1000)

    @property
    def goes_on(self) -> bool:
        """Whether another look is to come after this one."""
        return not self.is_last_look and not self.is_late and self.found is not FINAL


def answers() -> Iterator[Finding]:
    for revoked in (False, True):
        yield Resumed(revoked)
        yield Doubted(revoked)
        yield from (Looked(found, revoked) for found in FOUND)
    for over in (False, True):
        yield Sent(PUBLISHED, over)
        yield Sent(PENDING, over)
        for outcome, duplicate, absent, response in itertools.product([None, *Outcome], *[(False, True)] * 3):
            yield Sent(failure(outcome, duplicate=duplicate, absent=absent, response=response), over)
    for number in range(3):
        for found in itertools.product(FOUND, repeat=number):
            yield Compared(failure(Outcome.REJECTED, duplicate=True), found)


def intents_of(class_: SendClass, checks: tuple[float, ...]) -> Iterator[dict[str, Any]]:
    """What an intent may know: before, at and after each of its limits."""
    for looks, sends, answered, refusal in itertools.product(
        (0, len(checks) - 2, len(checks) - 1, len(checks)),
        sorted({1, class_.answered_resends + 1, class_.resends, class_.resends + 1} - {0}),
        (False, True),
        (None, kept(Outcome.REJECTED)),
    ):
        yield {"intent_at": NOON, "looks": looks, "sends": sends, "answered": answered, "refusal": refusal}


def times(checks: tuple[float, ...]) -> tuple[int, ...]:
    """Before the intent (the clock was set back), at it, at the horizon, at the last moment that counts, and after."""
    end = NOON + int(checks[-1] * 1000)
    return (NOON - 1, NOON, NOON + int(checks[0] * 1000), end, end + 1, end + SLACK_MS, end + SLACK_MS + 1)


@cache
def cases() -> tuple[tuple[Case, Step], ...]:
    """Every combination, and the step that it has."""
    found = []
    for class_, step in itertools.product((KEY, CONTAINER, NO_KEY), ("publish", "comment")):
        checks = checks_of(class_, step, HORIZON)
        for answer, intent, now in itertools.product(answers(), intents_of(class_, checks), times(checks)):
            case = Case(answer, class_, checks, intent, now)
            found.append((case, case.step()))
    return tuple(found)


# --- The table a second time ---------------------------------------------------------------------------------------

Condition = Callable[[Case], bool]
ROWS: tuple[tuple[str, type, Condition, type], ...] = (
    # What a run finds, or has just done.
    ("resumed: too early", Resumed, lambda of: not of.is_due, Wait),
    ("resumed: refused, revoked", Resumed, lambda of: of.is_due and of.revoked and of.said_no, Refused),
    ("resumed: look", Resumed, lambda of: of.is_due and not (of.revoked and of.said_no), Look),
    ("doubted: too early", Doubted, lambda of: not of.is_due, Wait),
    ("doubted: refused, revoked", Doubted, lambda of: of.is_due and of.revoked and of.said_no, Refused),
    ("doubted: look", Doubted, lambda of: of.is_due and not (of.revoked and of.said_no), Look),
    # The answer to a send.
    ("sent: there", Sent, lambda of: of.answer.answer is PUBLISHED, Bind),  # type: ignore[union-attr]
    ("sent: taken", Sent, lambda of: of.answer.answer is PENDING, Follow),  # type: ignore[union-attr]
    ("sent: a clear no", Sent, lambda of: bool(of.is_clear and of.error and not of.error.duplicate), Refused),
    ("sent: a duplicate", Sent, lambda of: bool(of.is_clear and of.error and of.error.duplicate), Compare),
    ("sent: unclear", Sent, lambda of: bool(of.error and not of.is_clear), Doubt),
    # What became of the earlier sends of a duplicate.
    ("compared: made", Compared, lambda of: PUBLISHED in of.answer.found, Bind),  # type: ignore[union-attr, operator]
    ("compared: not made", Compared, lambda of: set(map(type, of.answer.found)) <= {Absent}, Refused),  # type: ignore[union-attr, arg-type]
    (
        "compared: cannot be told",
        Compared,
        lambda of: PUBLISHED not in of.answer.found and bool(set(map(type, of.answer.found)) - {Absent}),  # type: ignore[union-attr, arg-type, operator]
        Duplicate,
    ),
    # What looking found.
    ("looked: there", Looked, lambda of: of.found is PUBLISHED, Bind),
    ("looked: taken", Looked, lambda of: of.found is PENDING, Follow),
    ("absent: again", Looked, lambda of: of.found is ABSENT and of.may_resend and not of.revoked, Resend),
    (
        "absent: refused",
        Looked,
        lambda of: (
            of.found is ABSENT and not (of.may_resend and not of.revoked) and of.is_proof and bool(of.intent["refusal"])
        ),
        Refused,
    ),
    (
        "absent: proven",
        Looked,
        lambda of: (
            of.found is ABSENT and not (of.may_resend and not of.revoked) and of.is_proof and not of.intent["refusal"]
        ),
        NotThere,
    ),
    ("unseen: revoked, refused", Looked, lambda of: unseen(of) and of.revoked and of.said_no, Refused),
    ("unseen: revoked", Looked, lambda of: unseen(of) and of.revoked and not of.said_no, NotSeen),
    ("unseen: look later", Looked, lambda of: unseen(of) and not of.revoked and of.goes_on, LookLater),
    ("unseen: the end", Looked, lambda of: unseen(of) and not of.revoked and not of.goes_on, NotSeen),
)


def unseen(case: Case) -> bool:
    """Looking neither found it nor showed that it is not there."""
    if case.found is ABSENT:
        return not case.is_proof and not (case.may_resend and not case.revoked)
    return case.found in (UNKNOWN, FINAL)


def test_every_combination_has_exactly_one_step_and_it_is_that_of_its_row() -> None:
    seen = set()
    for case, step in cases():
        (row,) = [row for row in ROWS if isinstance(case.answer, row[1]) and row[2](case)]
        assert isinstance(step, row[3]), (row[0], case, step)
        seen.add(row[0])
    assert seen == {row[0] for row in ROWS}
    assert {type(step) for _, step in cases()} == set(get_args(Step))
    assert {type(case.answer) for case, _ in cases()} == set(get_args(Finding))
    assert len(cases()) > 250_000


def test_the_same_combination_has_the_same_step() -> None:
    for case, step in cases()[::7]:
        assert type(case.step()) is type(step)


def test_an_answer_that_is_none_is_no_decision() -> None:
    with pytest.raises(AssertionError, match="no decision"):
        decide(None, KEY, KEY.checks, {}, NOON)  # type: ignore[arg-type]


# --- By hand -------------------------------------------------------------------------------------------------------

LOST, REJECTED = failure(Outcome.AMBIGUOUS, response=False), failure(Outcome.REJECTED)
FAILED, SLOWER = failure(Outcome.AMBIGUOUS), failure(Outcome.THROTTLED)
TWICE, NOTHING = failure(Outcome.REJECTED, duplicate=True), failure(Outcome.REJECTED, absent=True)
MINUTE, HOUR = 60_000, 3_600_000


@pytest.mark.parametrize(
    ("class_", "answer", "intent", "after_ms", "step"),
    [
        (KEY, Sent(PUBLISHED), {}, 0, Bind(PUBLISHED)),
        (NO_KEY, Sent(LOST), {}, 0, Doubt(LOST, kept=False, over=False, refused=False)),
        (NO_KEY, Sent(FAILED), {}, 0, Doubt(FAILED, kept=True, over=True, refused=False)),
        (NO_KEY, Sent(REJECTED), {}, 0, Refused(REJECTED)),
        (NO_KEY, Sent(SLOWER), {}, 0, Refused(SLOWER)),
        (NO_KEY, Sent(TWICE), {}, 0, Compare(TWICE)),
        (CONTAINER, Sent(REJECTED), {}, 0, Doubt(REJECTED, kept=True, over=True, refused=True)),  # asked, not trusted
        (CONTAINER, Sent(NOTHING), {}, 0, Refused(NOTHING)),
        (KEY, Sent(REJECTED, earlier_over=False), {}, 0, Doubt(REJECTED, kept=True, over=False, refused=True)),
        (KEY, Sent(SLOWER, earlier_over=False), {}, 0, Doubt(SLOWER, kept=True, over=False, refused=False)),
        (KEY, Doubted(), {}, 0, Look()),
        (NO_KEY, Doubted(), {}, 0, Wait(NOON + 5000)),
        (CONTAINER, Doubted(), {}, 0, Wait(NOON + MINUTE)),
        (NO_KEY, Resumed(), {"looks": 2}, 0, Wait(NOON + MINUTE)),
        (NO_KEY, Resumed(), {}, HOUR, Look()),
        (NO_KEY, Resumed(), {}, -1, Look()),  # the clock was set back since
        (NO_KEY, Resumed(revoked=True), {}, 0, Look()),  # soon, while anybody may still look
        (KEY, Looked(ABSENT), {}, 0, Resend(ABSENT)),
        (KEY, Looked(ABSENT), {"sends": 11}, 0, LookLater(ABSENT, NOON + 1000)),
        (KEY, Looked(ABSENT), {"sends": 3, "answered": True}, 0, NotThere(retryable=True)),
        (KEY, Looked(ABSENT), {"looks": 10}, HOUR, NotThere(retryable=True)),
        (KEY, Looked(ABSENT), {}, 2 * HOUR, NotSeen(ABSENT)),  # it may have been there and be gone
        (KEY, Looked(ABSENT, revoked=True), {}, 0, NotSeen(ABSENT)),
        (CONTAINER, Looked(ABSENT), {}, 2 * HOUR, NotThere(retryable=False)),
        (NO_KEY, Looked(ABSENT), {"answered": True}, 0, LookLater(ABSENT, NOON + 15_000)),
        (NO_KEY, Looked(ABSENT), {"looks": 3, "answered": True}, 3 * MINUTE, NotSeen(ABSENT)),
        (NO_KEY, Looked(UNKNOWN), {"looks": 3}, 3 * MINUTE, NotSeen(UNKNOWN)),
        (NO_KEY, Looked(FINAL), {}, 0, NotSeen(FINAL)),
        (NO_KEY, Looked(PUBLISHED), {}, 0, Bind(PUBLISHED, by_content=True)),
        (KEY, Looked(PUBLISHED, revoked=True), {}, 2 * HOUR, Bind(PUBLISHED)),
        (CONTAINER, Looked(PENDING), {}, 0, Follow(PENDING)),
        (NO_KEY, Compared(TWICE, [ABSENT, PUBLISHED]), {}, 0, Bind(PUBLISHED, by_content=True)),
        (NO_KEY, Compared(TWICE, [ABSENT, UNKNOWN]), {}, 0, Duplicate(TWICE)),
        (NO_KEY, Compared(TWICE, [ABSENT]), {}, 0, Refused(TWICE)),
        (NO_KEY, Compared(TWICE, []), {}, 0, Refused(TWICE)),
    ],
)
def test_the_steps_that_matter(class_: SendClass, answer: Finding, intent: Any, after_ms: int, step: Step) -> None:
    row = {"intent_at": NOON, "sends": 1, "looks": 0, "answered": False, "refusal": None} | intent
    assert decide(answer, class_, checks_of(class_, "publish", HORIZON), row, NOON + after_ms) == step


def test_a_refusal_that_was_kept_is_what_it_ends_with() -> None:
    row = {"intent_at": NOON, "sends": 1, "looks": 5, "answered": True, "refusal": kept(Outcome.THROTTLED)}
    for answer, after_ms, retryable in (
        (Looked(ABSENT), 0, True),
        (Looked(ABSENT), 2 * HOUR, False),  # sent anew hours later, it would be a surprise
        (Looked(UNKNOWN, revoked=True), 0, True),
        (Resumed(revoked=True), 0, True),
    ):
        step = decide(answer, CONTAINER, CONTAINER.checks, row, NOON + after_ms)
        assert isinstance(step, Refused)
        assert (step.error.outcome, step.error.retryable) == (Outcome.THROTTLED, retryable)


# --- Laws ----------------------------------------------------------------------------------------------------------


def steps_of(class_: SendClass, *kinds: type) -> set[type]:
    return {type(step) for case, step in cases() if case.class_ is class_ and isinstance(case.answer, kinds)}


def test_without_a_key_nothing_is_sent_again_nor_called_absent() -> None:
    assert not {Resend, NotThere} & steps_of(NO_KEY, *get_args(Finding))


def test_it_is_only_sent_again_after_a_look_that_found_nothing() -> None:
    for case, step in cases():
        if isinstance(step, Resend):
            assert case.found is ABSENT, case
            assert case.class_ is not NO_KEY, case
            assert not case.revoked, case
            assert not case.intent["refusal"], case  # somebody said no: not asked twice
            assert not case.is_last_look, case  # what it did could not be looked for any more
            assert case.intent["sends"] <= case.class_.resends, case


def test_it_is_never_called_failed_while_it_may_be_live() -> None:
    for case, step in cases():
        if not isinstance(step, ENDS_KNOWN):
            continue
        if case.error is not None:
            assert case.error.outcome in (Outcome.REJECTED, Outcome.THROTTLED, Outcome.NOT_SENT), case
            assert case.answer.earlier_over, case  # type: ignore[union-attr]
        elif isinstance(case.answer, Compared):
            assert all(found is ABSENT for found in case.answer.found), case
        elif case.found is ABSENT and not (case.revoked and case.said_no):
            assert case.intent["answered"] or case.is_last_look or case.class_ is CONTAINER, case
            assert case.class_ is not NO_KEY, case
        else:  # not seen: only the platform's own refusal of the one call that there was counts
            assert case.revoked, case
            assert case.said_no, case


def test_a_found_post_is_bound_whatever_else_is_known() -> None:
    for case, step in cases():
        if case.found is PUBLISHED or (isinstance(case.answer, Sent) and case.answer.answer is PUBLISHED):
            by_content = case.class_ is NO_KEY and case.found is PUBLISHED
            assert step == Bind(PUBLISHED, by_content), case


def test_looks_are_in_the_future_and_end() -> None:
    for case, step in cases():
        if isinstance(step, Wait | LookLater):
            assert step.at > case.now, case
        if isinstance(step, LookLater):
            assert case.intent["looks"] + 1 < len(case.checks), case
            assert step.found is not FINAL, case


def test_a_revoked_account_is_asked_once_at_most_and_sends_nothing() -> None:
    for case, step in cases():
        if isinstance(case.answer, Looked) and case.revoked:
            assert isinstance(step, Bind | Follow | Refused | NotThere | NotSeen), case


def test_deciding_changes_nothing_that_it_is_given() -> None:
    for answer in answers():
        row = {"intent_at": NOON, "sends": 2, "looks": 1, "answered": True, "refusal": kept(Outcome.REJECTED)}
        before = json.dumps(row), repr(answer)
        decide(answer, CONTAINER, CONTAINER.checks, row, NOON + 2 * HOUR)
        assert (json.dumps(row), repr(answer)) == before


def test_the_picture_at_the_head_of_the_table_names_every_step_and_answer() -> None:
    picture = (table.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    for name in (*get_args(Finding), *get_args(Step)):
        assert name.__name__ in picture, name


# --- A platform that loses and delays ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fate:
    """What becomes of one send: the error it is answered with (none: it is lost), and when it takes effect."""

    outcome: Outcome | None
    effect_ms: int | None  # after the send; null: never


@dataclass
class Walk:
    """A post from its first send to its end, by the steps of the table alone; the clock moves only in waiting."""

    class_: SendClass
    fates: list[Fate]
    blind: set[int]  # the looks that cannot tell
    now: int = NOON
    sends: int = 0
    looks: int = 0

    def __post_init__(self) -> None:
        self.checks = checks_of(self.class_, "publish", HORIZON)
        self.effects: list[int] = []
        self.intent: Any = {"intent_at": NOON, "sends": 1, "looks": 0, "answered": False, "refusal": None}

    def go(self) -> Step:
        answer = self.send(earlier_over=True)
        for _ in range(200):
            step = decide(answer, self.class_, self.checks, self.intent, self.now)
            if isinstance(step, Bind | Refused | NotThere | NotSeen):
                return step
            answer = self.take(step)
        raise AssertionError("it does not end")

    def send(self, *, earlier_over: bool) -> Finding:
        fate = self.fates[min(self.sends, len(self.fates) - 1)]
        self.sends += 1
        if fate.effect_ms is not None:
            self.effects.append(self.now + fate.effect_ms)
        if fate.outcome is Outcome.OK:
            self.effects.append(self.now)
            return Sent(PUBLISHED, earlier_over)
        answered = fate.outcome is not None
        return Sent(failure(fate.outcome or Outcome.AMBIGUOUS, response=answered), earlier_over)

    def take(self, step: Step) -> Finding:
        if isinstance(step, Doubt):
            if step.kept:
                refusal = kept(step.error.outcome or Outcome.REJECTED) if step.refused else None
                self.intent |= {"answered": step.over, "refusal": refusal}
            return Doubted()
        if isinstance(step, Wait):
            self.now = step.at
            return Resumed()
        if isinstance(step, Look):
            self.looks += 1
            live = any(at <= self.now for at in self.effects)
            return Looked(UNKNOWN if self.looks in self.blind else PUBLISHED if live else ABSENT)
        self.intent |= {"looks": self.intent["looks"] + 1}
        if isinstance(step, LookLater):
            self.now = step.at
            return Resumed()
        assert isinstance(step, Resend), step
        earlier_over = self.intent["answered"]
        self.intent |= {"sends": self.intent["sends"] + 1, "answered": False}
        return self.send(earlier_over=earlier_over)


LATE_EFFECT = st.none() | st.integers(0, 59_000)  # what is on its way arrives before a call's deadline
FATES = st.one_of(
    st.builds(Fate, st.none(), LATE_EFFECT),  # lost, now or later or never there
    st.builds(Fate, st.just(Outcome.AMBIGUOUS), st.none() | st.just(0)),  # an error, which says nothing
    st.builds(Fate, st.sampled_from([Outcome.REJECTED, Outcome.THROTTLED, Outcome.NOT_SENT]), st.none()),
    st.builds(Fate, st.just(Outcome.OK), st.none()),
)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from([KEY, CONTAINER, NO_KEY]), st.lists(FATES, min_size=1, max_size=6), st.sets(st.integers(1, 12)))
def test_however_answers_are_lost_what_is_called_failed_is_never_live(
    class_: SendClass, fates: list[Fate], blind: set[int]
) -> None:
    walk = Walk(class_, fates, blind)
    step = walk.go()
    if isinstance(step, ENDS_KNOWN):
        assert walk.effects == []
    if isinstance(step, Bind):
        assert any(at <= walk.now for at in walk.effects)
    assert walk.sends <= 1 + class_.resends
    if class_ is NO_KEY:
        assert walk.sends == 1
        assert len(walk.effects) <= 1
