"""Decision table of the publishing protocol: next step per answer, class, intent and time.

`ROWS` is an independent second version of the table: conditions of which exactly one must hold. Further tests check
safety properties of the whole table, and walk through a platform that loses and delays responses.
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
    AmbiguityRecorded,
    BindRemotePost,
    CompareEarlierSends,
    EarlierSendsCompared,
    FailAbsent,
    FailDuplicate,
    FailRefused,
    FailUnknown,
    LookupAnswered,
    LookUpRemotePost,
    PollRemotePost,
    RecordAmbiguity,
    ResendPlan,
    RetryLookup,
    RunFinding,
    RunResumed,
    RunStep,
    SendAnswered,
    WaitUntil,
    decide,
)
from socialpub.domain.publishing.intents import REFUSAL_FIELDS
from socialpub.domain.publishing.lookup_schedule import compute_times
from socialpub.platforms.contract import CONTAINER, KEY, NO_KEY, Absent, Pending, Published, SendClass, Unknown
from tests.support.fixed_clock import NOON

HORIZON = 180.0
SLACK_MS = 300_000
ENDS_KNOWN = (FailRefused, FailAbsent)
ENDS_UNKNOWN = (FailUnknown, FailDuplicate)
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


def is_informative(outcome: Outcome) -> str:
    """A refusal as an intent keeps it."""
    error = failure(outcome)
    return json.dumps({name: getattr(error, name) for name in REFUSAL_FIELDS}, default=str)


@dataclass(slots=True)
class Case:
    answer: RunFinding
    class_: SendClass
    checks: tuple[float, ...]
    intent: Any
    now: int

    def step(self) -> RunStep:
        return decide(self.answer, self.class_, self.checks, self.intent, self.now)

    # --- What the rows and the laws ask ---

    @property
    def error(self) -> ApiError | None:
        return (
            self.answer.reply
            if isinstance(self.answer, SendAnswered) and isinstance(self.answer.reply, ApiError)
            else None
        )

    @property
    def found(self) -> Any:
        return self.answer.found if isinstance(self.answer, LookupAnswered) else None

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
        if self.error is None or not self.answer.earlier_done:  # type: ignore[union-attr]
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
        is_answered = bool(self.intent["answered"]) or self.is_last_look
        return (self.class_ is KEY and is_answered and not self.is_late) or (
            self.class_ is CONTAINER and (is_answered or self.is_late)
        )

    @property
    def is_due(self) -> bool:
        """Whether it is time to look, without an earlier look to keep a distance from."""
        at, looks = self.intent["intent_at"], self.intent["looks"]
        if isinstance(self.answer, RunResumed):
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


def answers() -> Iterator[RunFinding]:
    for revoked in (False, True):
        yield RunResumed(revoked)
        yield AmbiguityRecorded(revoked)
        yield from (LookupAnswered(found, revoked) for found in FOUND)
    for is_answered in (False, True):
        yield SendAnswered(PUBLISHED, is_answered)
        yield SendAnswered(PENDING, is_answered)
        for outcome, duplicate, absent, response in itertools.product([None, *Outcome], *[(False, True)] * 3):
            yield SendAnswered(failure(outcome, duplicate=duplicate, absent=absent, response=response), is_answered)
    for number in range(3):
        for found in itertools.product(FOUND, repeat=number):
            yield EarlierSendsCompared(failure(Outcome.REJECTED, duplicate=True), found)


def intents_of(class_: SendClass, checks: tuple[float, ...]) -> Iterator[dict[str, Any]]:
    """What an intent may know: before, at and after each of its limits."""
    for looks, sends, answered, refusal in itertools.product(
        (0, len(checks) - 2, len(checks) - 1, len(checks)),
        sorted({1, class_.answered_resends + 1, class_.resends, class_.resends + 1} - {0}),
        (False, True),
        (None, is_informative(Outcome.REJECTED)),
    ):
        yield {"intent_at": NOON, "looks": looks, "sends": sends, "answered": answered, "refusal": refusal}


def times(checks: tuple[float, ...]) -> tuple[int, ...]:
    """Before the intent (the clock was set back), at it, at the horizon, at the last moment that counts, and after."""
    end = NOON + int(checks[-1] * 1000)
    return (NOON - 1, NOON, NOON + int(checks[0] * 1000), end, end + 1, end + SLACK_MS, end + SLACK_MS + 1)


@cache
def cases() -> tuple[tuple[Case, RunStep], ...]:
    """Every combination, and the step that it has."""
    found = []
    for class_, step in itertools.product((KEY, CONTAINER, NO_KEY), ("publish", "comment")):
        checks = compute_times(class_, step, HORIZON)
        for answer, intent, now in itertools.product(answers(), intents_of(class_, checks), times(checks)):
            case = Case(answer, class_, checks, intent, now)
            found.append((case, case.step()))
    return tuple(found)


# --- The table a second time ---------------------------------------------------------------------------------------

Condition = Callable[[Case], bool]
ROWS: tuple[tuple[str, type, Condition, type], ...] = (
    # What a run finds, or has just done.
    ("resumed: too early", RunResumed, lambda of: not of.is_due, WaitUntil),
    ("resumed: refused, revoked", RunResumed, lambda of: of.is_due and of.revoked and of.said_no, FailRefused),
    ("resumed: look", RunResumed, lambda of: of.is_due and not (of.revoked and of.said_no), LookUpRemotePost),
    ("doubted: too early", AmbiguityRecorded, lambda of: not of.is_due, WaitUntil),
    ("doubted: refused, revoked", AmbiguityRecorded, lambda of: of.is_due and of.revoked and of.said_no, FailRefused),
    ("doubted: look", AmbiguityRecorded, lambda of: of.is_due and not (of.revoked and of.said_no), LookUpRemotePost),
    # The answer to a send.
    ("sent: there", SendAnswered, lambda of: of.answer.reply is PUBLISHED, BindRemotePost),  # type: ignore[union-attr]
    ("sent: taken", SendAnswered, lambda of: of.answer.reply is PENDING, PollRemotePost),  # type: ignore[union-attr]
    (
        "sent: a clear no",
        SendAnswered,
        lambda of: bool(of.is_clear and of.error and not of.error.duplicate),
        FailRefused,
    ),
    (
        "sent: a duplicate",
        SendAnswered,
        lambda of: bool(of.is_clear and of.error and of.error.duplicate),
        CompareEarlierSends,
    ),
    ("sent: unclear", SendAnswered, lambda of: bool(of.error and not of.is_clear), RecordAmbiguity),
    # What became of the earlier sends of a duplicate.
    ("compared: made", EarlierSendsCompared, lambda of: PUBLISHED in of.answer.found, BindRemotePost),  # type: ignore[union-attr, operator]
    ("compared: not made", EarlierSendsCompared, lambda of: set(map(type, of.answer.found)) <= {Absent}, FailRefused),  # type: ignore[union-attr, arg-type]
    (
        "compared: cannot be told",
        EarlierSendsCompared,
        lambda of: PUBLISHED not in of.answer.found and bool(set(map(type, of.answer.found)) - {Absent}),  # type: ignore[union-attr, arg-type, operator]
        FailDuplicate,
    ),
    # What looking found.
    ("looked: there", LookupAnswered, lambda of: of.found is PUBLISHED, BindRemotePost),
    ("looked: taken", LookupAnswered, lambda of: of.found is PENDING, PollRemotePost),
    ("absent: again", LookupAnswered, lambda of: of.found is ABSENT and of.may_resend and not of.revoked, ResendPlan),
    (
        "absent: refused",
        LookupAnswered,
        lambda of: (
            of.found is ABSENT and not (of.may_resend and not of.revoked) and of.is_proof and bool(of.intent["refusal"])
        ),
        FailRefused,
    ),
    (
        "absent: proven",
        LookupAnswered,
        lambda of: (
            of.found is ABSENT and not (of.may_resend and not of.revoked) and of.is_proof and not of.intent["refusal"]
        ),
        FailAbsent,
    ),
    ("unseen: revoked, refused", LookupAnswered, lambda of: unseen(of) and of.revoked and of.said_no, FailRefused),
    ("unseen: revoked", LookupAnswered, lambda of: unseen(of) and of.revoked and not of.said_no, FailUnknown),
    ("unseen: look later", LookupAnswered, lambda of: unseen(of) and not of.revoked and of.goes_on, RetryLookup),
    ("unseen: the end", LookupAnswered, lambda of: unseen(of) and not of.revoked and not of.goes_on, FailUnknown),
)


def unseen(case: Case) -> bool:
    """Looking neither found it nor showed that it is not there."""
    if case.found is ABSENT:
        return not case.is_proof and not (case.may_resend and not case.revoked)
    return case.found in (UNKNOWN, FINAL)


@pytest.mark.slow
def test_every_combination_has_exactly_one_step_and_it_is_that_of_its_row() -> None:
    seen, by_answer = set(), {kind: [row for row in ROWS if row[1] is kind] for kind in get_args(RunFinding)}
    for case, step in cases():
        (row,) = [row for row in by_answer[type(case.answer)] if row[2](case)]
        assert isinstance(step, row[3]), (row[0], case, step)
        seen.add(row[0])
    assert seen == {row[0] for row in ROWS}
    assert {type(step) for _, step in cases()} == set(get_args(RunStep))
    assert {type(case.answer) for case, _ in cases()} == set(get_args(RunFinding))
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
        (KEY, SendAnswered(PUBLISHED), {}, 0, BindRemotePost(PUBLISHED)),
        (
            NO_KEY,
            SendAnswered(LOST),
            {},
            0,
            RecordAmbiguity(LOST, is_informative=False, is_answered=False, refused=False),
        ),
        (
            NO_KEY,
            SendAnswered(FAILED),
            {},
            0,
            RecordAmbiguity(FAILED, is_informative=True, is_answered=True, refused=False),
        ),
        (NO_KEY, SendAnswered(REJECTED), {}, 0, FailRefused(REJECTED)),
        (NO_KEY, SendAnswered(SLOWER), {}, 0, FailRefused(SLOWER)),
        (NO_KEY, SendAnswered(TWICE), {}, 0, CompareEarlierSends(TWICE)),
        (
            CONTAINER,
            SendAnswered(REJECTED),
            {},
            0,
            RecordAmbiguity(REJECTED, is_informative=True, is_answered=True, refused=True),
        ),  # asked, not trusted
        (CONTAINER, SendAnswered(NOTHING), {}, 0, FailRefused(NOTHING)),
        (
            KEY,
            SendAnswered(REJECTED, earlier_done=False),
            {},
            0,
            RecordAmbiguity(REJECTED, is_informative=True, is_answered=False, refused=True),
        ),
        (
            KEY,
            SendAnswered(SLOWER, earlier_done=False),
            {},
            0,
            RecordAmbiguity(SLOWER, is_informative=True, is_answered=False, refused=False),
        ),
        (KEY, AmbiguityRecorded(), {}, 0, LookUpRemotePost()),
        (NO_KEY, AmbiguityRecorded(), {}, 0, WaitUntil(NOON + 5000)),
        (CONTAINER, AmbiguityRecorded(), {}, 0, WaitUntil(NOON + MINUTE)),
        (NO_KEY, RunResumed(), {"looks": 2}, 0, WaitUntil(NOON + MINUTE)),
        (NO_KEY, RunResumed(), {}, HOUR, LookUpRemotePost()),
        (NO_KEY, RunResumed(), {}, -1, LookUpRemotePost()),  # the clock was set back since
        (NO_KEY, RunResumed(revoked=True), {}, 0, LookUpRemotePost()),  # soon, while anybody may still look
        (KEY, LookupAnswered(ABSENT), {}, 0, ResendPlan(ABSENT)),
        (KEY, LookupAnswered(ABSENT), {"sends": 11}, 0, RetryLookup(ABSENT, NOON + 1000)),
        (KEY, LookupAnswered(ABSENT), {"sends": 3, "answered": True}, 0, FailAbsent(retryable=True)),
        (KEY, LookupAnswered(ABSENT), {"looks": 10}, HOUR, FailAbsent(retryable=True)),
        (KEY, LookupAnswered(ABSENT), {}, 2 * HOUR, FailUnknown(ABSENT)),  # it may have been there and be gone
        (KEY, LookupAnswered(ABSENT, revoked=True), {}, 0, FailUnknown(ABSENT)),
        (CONTAINER, LookupAnswered(ABSENT), {}, 2 * HOUR, FailAbsent(retryable=False)),
        (NO_KEY, LookupAnswered(ABSENT), {"answered": True}, 0, RetryLookup(ABSENT, NOON + 15_000)),
        (NO_KEY, LookupAnswered(ABSENT), {"looks": 3, "answered": True}, 3 * MINUTE, FailUnknown(ABSENT)),
        (NO_KEY, LookupAnswered(UNKNOWN), {"looks": 3}, 3 * MINUTE, FailUnknown(UNKNOWN)),
        (NO_KEY, LookupAnswered(FINAL), {}, 0, FailUnknown(FINAL)),
        (NO_KEY, LookupAnswered(PUBLISHED), {}, 0, BindRemotePost(PUBLISHED, by_content=True)),
        (KEY, LookupAnswered(PUBLISHED, revoked=True), {}, 2 * HOUR, BindRemotePost(PUBLISHED)),
        (CONTAINER, LookupAnswered(PENDING), {}, 0, PollRemotePost(PENDING)),
        (NO_KEY, EarlierSendsCompared(TWICE, [ABSENT, PUBLISHED]), {}, 0, BindRemotePost(PUBLISHED, by_content=True)),
        (NO_KEY, EarlierSendsCompared(TWICE, [ABSENT, UNKNOWN]), {}, 0, FailDuplicate(TWICE)),
        (NO_KEY, EarlierSendsCompared(TWICE, [ABSENT]), {}, 0, FailRefused(TWICE)),
        (NO_KEY, EarlierSendsCompared(TWICE, []), {}, 0, FailRefused(TWICE)),
    ],
)
def test_the_steps_that_matter(
    class_: SendClass, answer: RunFinding, intent: Any, after_ms: int, step: RunStep
) -> None:
    row = {"intent_at": NOON, "sends": 1, "looks": 0, "answered": False, "refusal": None} | intent
    assert decide(answer, class_, compute_times(class_, "publish", HORIZON), row, NOON + after_ms) == step


def test_a_refusal_that_was_kept_is_what_it_ends_with() -> None:
    row = {"intent_at": NOON, "sends": 1, "looks": 5, "answered": True, "refusal": is_informative(Outcome.THROTTLED)}
    for answer, after_ms, retryable in (
        (LookupAnswered(ABSENT), 0, True),
        (LookupAnswered(ABSENT), 2 * HOUR, False),  # sent anew hours later, it would be a surprise
        (LookupAnswered(UNKNOWN, revoked=True), 0, True),
        (RunResumed(revoked=True), 0, True),
    ):
        step = decide(answer, CONTAINER, CONTAINER.checks, row, NOON + after_ms)
        assert isinstance(step, FailRefused)
        assert (step.error.outcome, step.error.retryable) == (Outcome.THROTTLED, retryable)


# --- Laws ----------------------------------------------------------------------------------------------------------


def steps_of(class_: SendClass, *kinds: type) -> set[type]:
    return {type(step) for case, step in cases() if case.class_ is class_ and isinstance(case.answer, kinds)}


def test_without_a_key_nothing_is_sent_again_nor_called_absent() -> None:
    assert not {ResendPlan, FailAbsent} & steps_of(NO_KEY, *get_args(RunFinding))


def test_it_is_only_sent_again_after_a_look_that_found_nothing() -> None:
    for case, step in cases():
        if isinstance(step, ResendPlan):
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
            assert case.answer.earlier_done, case  # type: ignore[union-attr]
        elif isinstance(case.answer, EarlierSendsCompared):
            assert all(found is ABSENT for found in case.answer.found), case
        elif case.found is ABSENT and not (case.revoked and case.said_no):
            assert case.intent["answered"] or case.is_last_look or case.class_ is CONTAINER, case
            assert case.class_ is not NO_KEY, case
        else:  # not seen: only the platform's own refusal of the one call that there was counts
            assert case.revoked, case
            assert case.said_no, case


def test_a_found_post_is_bound_whatever_else_is_known() -> None:
    for case, step in cases():
        if case.found is PUBLISHED or (isinstance(case.answer, SendAnswered) and case.answer.reply is PUBLISHED):
            by_content = case.class_ is NO_KEY and case.found is PUBLISHED
            assert step == BindRemotePost(PUBLISHED, by_content), case


def test_looks_are_in_the_future_and_end() -> None:
    for case, step in cases():
        if isinstance(step, WaitUntil | RetryLookup):
            assert step.at > case.now, case
        if isinstance(step, RetryLookup):
            assert case.intent["looks"] + 1 < len(case.checks), case
            assert step.found is not FINAL, case


def test_a_revoked_account_is_asked_once_at_most_and_sends_nothing() -> None:
    for case, step in cases():
        if isinstance(case.answer, LookupAnswered) and case.revoked:
            assert isinstance(step, BindRemotePost | PollRemotePost | FailRefused | FailAbsent | FailUnknown), case


def test_deciding_changes_nothing_that_it_is_given() -> None:
    for answer in answers():
        row = {"intent_at": NOON, "sends": 2, "looks": 1, "answered": True, "refusal": is_informative(Outcome.REJECTED)}
        before = json.dumps(row), repr(answer)
        decide(answer, CONTAINER, CONTAINER.checks, row, NOON + 2 * HOUR)
        assert (json.dumps(row), repr(answer)) == before


def test_the_picture_at_the_head_of_the_table_names_every_step_and_answer() -> None:
    picture = (table.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    for name in (*get_args(RunFinding), *get_args(RunStep)):
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
        self.checks = compute_times(self.class_, "publish", HORIZON)
        self.effects: list[int] = []
        self.intent: Any = {"intent_at": NOON, "sends": 1, "looks": 0, "answered": False, "refusal": None}

    def go(self) -> RunStep:
        answer = self.send(earlier_done=True)
        for _ in range(200):
            step = decide(answer, self.class_, self.checks, self.intent, self.now)
            if isinstance(step, BindRemotePost | FailRefused | FailAbsent | FailUnknown):
                return step
            answer = self.take(step)
        raise AssertionError("it does not end")

    def send(self, *, earlier_done: bool) -> RunFinding:
        fate = self.fates[min(self.sends, len(self.fates) - 1)]
        self.sends += 1
        if fate.effect_ms is not None:
            self.effects.append(self.now + fate.effect_ms)
        if fate.outcome is Outcome.OK:
            self.effects.append(self.now)
            return SendAnswered(PUBLISHED, earlier_done)
        answered = fate.outcome is not None
        return SendAnswered(failure(fate.outcome or Outcome.AMBIGUOUS, response=answered), earlier_done)

    def take(self, step: RunStep) -> RunFinding:
        if isinstance(step, RecordAmbiguity):
            if step.is_informative:
                refusal = is_informative(step.error.outcome or Outcome.REJECTED) if step.refused else None
                self.intent |= {"answered": step.is_answered, "refusal": refusal}
            return AmbiguityRecorded()
        if isinstance(step, WaitUntil):
            self.now = step.at
            return RunResumed()
        if isinstance(step, LookUpRemotePost):
            self.looks += 1
            live = any(at <= self.now for at in self.effects)
            return LookupAnswered(UNKNOWN if self.looks in self.blind else PUBLISHED if live else ABSENT)
        self.intent |= {"looks": self.intent["looks"] + 1}
        if isinstance(step, RetryLookup):
            self.now = step.at
            return RunResumed()
        assert isinstance(step, ResendPlan), step
        earlier_done = self.intent["answered"]
        self.intent |= {"sends": self.intent["sends"] + 1, "answered": False}
        return self.send(earlier_done=earlier_done)


LATE_EFFECT = st.none() | st.integers(0, 59_000)  # what is on its way arrives before a call's deadline
FATES = st.one_of(
    st.builds(Fate, st.none(), LATE_EFFECT),  # lost, now or later or never there
    st.builds(Fate, st.just(Outcome.AMBIGUOUS), st.none() | st.just(0)),  # an error, which says nothing
    st.builds(Fate, st.sampled_from([Outcome.REJECTED, Outcome.THROTTLED, Outcome.NOT_SENT]), st.none()),
    st.builds(Fate, st.just(Outcome.OK), st.none()),
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.sampled_from([KEY, CONTAINER, NO_KEY]), st.lists(FATES, min_size=1, max_size=6), st.sets(st.integers(1, 12)))
def test_however_answers_are_lost_what_is_called_failed_is_never_live(
    class_: SendClass, fates: list[Fate], blind: set[int]
) -> None:
    walk = Walk(class_, fates, blind)
    step = walk.go()
    if isinstance(step, ENDS_KNOWN):
        assert walk.effects == []
    if isinstance(step, BindRemotePost):
        assert any(at <= walk.now for at in walk.effects)
    assert walk.sends <= 1 + class_.resends
    if class_ is NO_KEY:
        assert walk.sends == 1
        assert len(walk.effects) <= 1
