"""Rows written in one batch for several organizations keep their owners."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from socialpub.domain.access import actions, lost_responses
from socialpub.domain.posts import batch_transaction
from socialpub.domain.publishing import run, transactions
from socialpub.store.schema.models import (
    Attempt,
    AuditEntry,
    Batch,
    IdempotencyRecord,
    Intent,
    Job,
    Media,
    Notification,
    Organization,
    UnacknowledgedRequest,
    Usage,
    WebhookDelivery,
)
from tests.support.app_server import ApiClient, AppServer, Person, sleep_briefly
from tests.support.chat_servers import CHATS, add_channel
from tests.support.database_costs import DatabaseCounter, DatabaseWork
from tests.support.request_cast import RequestCast, inline_item, make_picture
from tests.support.webhook_endpoints import register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import WebhookReceiver, running_receiver
from tests.support.writer_gate import WriterGate

EACH = 3  # requests of each person, each to an account of its own; the first has a key
HOUR = 3600
TOLD = ("post.queued", "post.validated", "post.published")


@pytest.fixture
def server(counting: DatabaseCounter, make_server: Callable[..., AppServer]) -> AppServer:
    """With quotas that Alice's and Bob's requests together, and Charlie's, use up."""
    return make_server(publishing={"workers": 32}, billing={"pro": 2 * EACH, "free": EACH})


@pytest.fixture
def people(server: AppServer, world: RequestCast) -> list[Person]:
    """Alice of an organization, Bob of a profile in it, and Charlie of another one."""
    people = [world.alice, world.bob, world.charlie]
    for person in people:
        for number in range(EACH):
            server.connect_bluesky(person, f"b{number}")
    return people


@pytest.fixture
def chat() -> Iterator[WebhookReceiver]:
    with running_receiver(CHATS["slack"].answer) as sink:
        yield sink


class Ears:
    """Whose requests without a key were told apart by which ids."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self._ear_of = lost_responses.identify

    def __call__(self, service: Any, scope: Any, *rest: Any) -> Any:
        ear = self._ear_of(service, scope, *rest)
        if ear is not None:
            self.owners[ear.id] = scope.organization
        return ear


def accepted(server: AppServer, people: list[Person], at: str, *, pictures: bool = False) -> dict[str, Person]:
    """Whose each batch is; all of them are accepted while the writer is busy, so in one transaction."""

    def publish(person: Person, number: int) -> str:
        body: dict[str, Any] = {"text": f"{person.name} {number}", "scheduledAt": at}
        if pictures:
            body["media"] = [inline_item(make_picture(), altText=person.name)]
        with ApiClient(server.url, person.key) as api:
            answer = api.publish(
                body | {"targets": [{"accountId": person.accounts[f"b{number}"]["id"]}]}, key=None if number else "k"
            )
        return str(answer.raise_for_status().json()["id"])

    asked = [(person, number) for number in range(EACH) for person in people]
    gate = WriterGate(server, actions._add_authorization(batch_transaction.insert_batches), len(asked))
    with ThreadPoolExecutor(len(asked)) as clients, gate:
        found = [(person, clients.submit(publish, person, number)) for person, number in asked]
        return {batch.result(): person for person, batch in found}


def publish_all(server: AppServer, count: int) -> None:
    """All of them are claimed in one transaction, and their results are written in another."""
    with WriterGate(server, run.claim_together, count), WriterGate(server, transactions.publish_sent, count):
        server.skip(HOUR + 1)
        while len(server.lab.lab.ledger.posts()) < count or server.service.jobs.held():
            sleep_briefly()


def ran(work: DatabaseWork, *begins: str) -> int:
    """How often a statement ran that begins so."""
    return sum(" ".join(text.split()).startswith(begins) for text in work.sql)


ACCEPTED = ("INTO batch (", "INTO post (", "INTO audit (", "INTO owed (")
PUBLISHED = ("INSERT INTO attempt", "INSERT INTO intent", "UPDATE post SET status = 'published'")


def test_requests_accepted_together_are_recorded_for_their_own_tenants(
    counting: DatabaseCounter,
    server: AppServer,
    world: RequestCast,
    people: list[Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records of keys, answers that are owed, rows of the audit, quotas and media."""
    monkeypatch.setattr(
        lost_responses, "DELETE_DELAY_SECONDS", HOUR
    )  # the rows of answers that were heard stay for the test
    ears = Ears()
    monkeypatch.setattr(lost_responses, "identify", ears)
    tiers = {world.alice.organization: "pro", world.charlie.organization: "free"}
    for organization, tier in tiers.items():
        change = Organization.update(tier=tier).where(Organization.id == organization)
        server.service.write(lambda tx, change=change: change.execute()).result()
    with counting.while_() as done:
        owner = accepted(server, people, world.soon(HOUR), pictures=True)
    crossed = [(event.type, event.organization) for event in server.happened() if event.type.startswith("quota.")]
    assert sorted(crossed) == sorted((f"quota.{name}", each) for name in ("warning", "exceeded") for each in tiers)
    for into in ACCEPTED:
        assert ran(done.asked, f"INSERT {into}", f"INSERT OR REPLACE {into}") == 1, done
    for row in server.rows():
        check_post(row, owner[row["batch"]])
    for row in server.rows(Batch):
        assert row["organization"] == owner[row["id"]].organization
    check_requests(server, owner, ears)
    media = {row["id"]: row for row in server.rows(Media)}
    for row in server.rows():
        (asset,) = [each for each in media.values() if each["id"] in row["media"]]
        assert (asset["organization"], asset["profile"]) == (row["organization"], row["profile"])
        assert asset["alt_text"] == row["text"].split()[0]
    for row in server.rows(Job, kind="publish"):
        (post,) = server.rows(id=row["key"])
        assert (row["serial_group"], row["owner"]) == (post["account"], post["organization"])


@pytest.mark.slow
def test_posts_that_are_published_together_are_told_to_their_own_tenants(
    counting: DatabaseCounter,
    server: AppServer,
    world: RequestCast,
    people: list[Person],
    sink: WebhookReceiver,
    chat: WebhookReceiver,
) -> None:
    """Accepted, claimed and recorded in one transaction each: attempts, intents, events, deliveries, messages."""
    endpoints = {register_endpoint(person, f"{sink.url}/{person.name}")["id"]: person for person in people}
    to = CHATS["slack"].to(chat.origin)
    channels = {add_channel(person, to, events=["post.published"])["id"]: person for person in people}
    with counting.while_() as done:
        owner = accepted(server, people, world.soon(HOUR))
        publish_all(server, EACH * len(people))
    for begins in PUBLISHED:
        assert ran(done.unasked, begins) == 1, done
    wait_for_deliveries(server, world.alice, len(TOLD) * EACH * 4)  # Alice's endpoint is told of both profiles
    posts = server.rows()
    whose = {row["id"]: owner[row["batch"]] for row in posts}
    for row in posts:
        check_post(row, whose[row["id"]])
    check_what_was_published(server, posts, people)
    check_events(server, whose, endpoints, sink)
    told = {(row["channel"], row["organization"]) for row in server.rows(Notification)}
    assert told == {(channel, person.organization) for channel, person in channels.items()}
    for row in server.rows(Notification):
        assert row["profile"] in {whose[id_].profile for id_ in whose if whose[id_].organization == row["organization"]}


def check_post(row: dict[str, Any], person: Person) -> None:
    assert row["text"].split()[0] == person.name
    assert (row["organization"], row["profile"]) == (person.organization, person.profile)
    assert row["account"] in {account["id"] for account in person.accounts.values()}


def check_what_was_published(server: AppServer, posts: list[dict[str, Any]], people: list[Person]) -> None:
    """Each went out with its own text and with its own account."""
    out = {entry.remote_id: entry.text for entry in server.lab.lab.ledger.posts()}
    assert len(out) == len(posts)
    at = {account["id"]: account["platformAccountId"] for person in people for account in person.accounts.values()}
    for row in posts:
        assert row["status"] == "published"
        assert out[row["platform_uri"]] == row["text"]
        assert at[row["account"]] in row["platform_uri"]
        (intent,) = server.rows(Intent, post=row["id"])
        assert (intent["account"], intent["number"], intent["outcome"]) == (row["account"], 1, "ok")
        (attempt,) = server.rows(Attempt, post=row["id"])
        assert (attempt["number"], attempt["succeeded"]) == (1, True)
    assert server.rows(Job, kind="publish") == []


def check_requests(server: AppServer, owner: dict[str, Person], ears: Ears) -> None:
    """The record of a key, the answer that is owed, the row of the audit, and the quota."""
    for person in {person.name: person for person in owner.values()}.values():
        acts = [row for row in server.rows(AuditEntry, key=person.key_id) if row["subject"] in owner]
        assert {row["organization"] for row in acts} == {person.organization}
        assert {row["subject"] for row in acts} == {batch for batch, each in owner.items() if each is person}
        assert len(acts) == EACH
    keys = server.rows(IdempotencyRecord)
    assert len(keys) == 3
    assert sorted(owner[row["batch"]].name for row in keys) == ["Alice", "Bob", "Charlie"]
    for row in keys:
        assert row["organization"] == owner[row["batch"]].organization
        assert json.loads(row["body"])["id"] == row["batch"]
    owed = server.rows(UnacknowledgedRequest)
    assert len(owed) == len(owner) - len(keys)
    for row in owed:
        assert ears.owners[row["id"]] == owner[row["batch"]].organization
    used = {row["organization"]: row["posts"] for row in server.rows(Usage)}
    assert used == {
        id_: sum(person.organization == id_ for person in owner.values())
        for id_ in {person.organization for person in owner.values()}
    }


def check_events(
    server: AppServer, whose: dict[str, Person], endpoints: dict[str, Person], sink: WebhookReceiver
) -> None:
    """Each is told to the endpoints of its organization, and of its profile where they hear of one alone."""
    happened = {event.number: event for event in server.happened() if event.post}
    assert sorted((event.post, event.type) for event in happened.values()) == sorted(
        (post, type_) for post in whose for type_ in TOLD
    )
    for event in happened.values():
        person = whose[str(event.post)]
        assert (event.organization, event.profile) == (person.organization, person.profile)
    expected = sorted(
        (hearer.name, post, type_)
        for hearer in endpoints.values()
        for post, person in whose.items()
        for type_ in TOLD
        if person is hearer or (hearer.name == "Alice" and person.organization == hearer.organization)
    )
    got = sorted((call.path.rpartition("/")[2], call.event["data"]["id"], call.event["type"]) for call in sink.got)
    assert got == expected
    for row in server.rows(WebhookDelivery):
        event, hearer = happened[row["event"]], endpoints[row["endpoint"]]
        assert (row["organization"], event.organization) == (hearer.organization, hearer.organization)
