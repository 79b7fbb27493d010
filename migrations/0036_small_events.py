"""Events keep what nothing else tells: their organization, post and type as numbers, and little else.

New events have no id: it is made of their number and time (`eventlog.id_of`). Those of before keep theirs, as the 16 bytes
that it stands for. A post's event has no request where that is the one that made the post's batch, and no data where it
is what its type tells as a rule: only the time for which the post was scheduled.

Organizations get numbers that nothing changes, for which their table is made anew. Others refer to it, and deliveries to
events, so references are not looked at meanwhile: which is said outside of a transaction. So this one begins its own, and
finds out whether it was done before. On a million posts it takes a minute, and the log tells how far it is.
"""

import logging
import re
from datetime import UTC, datetime, timedelta

atomic = False
log = logging.getLogger("socialpub.store")
PART = 100_000
TYPES = (
    "post.queued post.validated post.published post.rejected post.failed post.canceled post.rescheduled token.expiring "
    "token.revoked version.deprecated subscription.activated subscription.cancelled subscription.tier_changed quota.warning "
    "quota.exceeded billing.payment_failed billing.delinquent billing.recovered"
).split()
NUMBER = {type_: number for number, type_ in enumerate(TYPES, 1)}

# What the data of a type is as a rule, after the time for which the post was scheduled. U+0001 stands for the links of
# what is published, U+0002 for the event's time.
USUAL = {
    "post.queued": ',"queuedAt":\x02}',
    "post.validated": ',"validatedAt":\x02}',
    "post.published": ',"publishedAt":"{published}",\x01}',
    "post.canceled": ',"canceledAt":\x02}',
}
SCHEDULED = re.compile(r'"scheduledAt":(?:null|"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")')
DIGITS = {digit: place for place, digit in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ORGANIZATION = """
    CREATE TABLE "organization_new" (
        "number" INTEGER NOT NULL PRIMARY KEY,
        "id" TEXT NOT NULL,
        "name" TEXT NOT NULL,
        "tier" TEXT NOT NULL,
        "created_at" INTEGER NOT NULL
    )
"""
EVENT = """
    CREATE TABLE "event_new" (
        "number" INTEGER NOT NULL PRIMARY KEY,
        "former_id" BLOB,
        "organization" INTEGER NOT NULL REFERENCES "organization" ("number"),
        "profile" TEXT REFERENCES "profile" ("id"),
        "type" INTEGER NOT NULL,
        "post" INTEGER,
        "scheduled_at" INTEGER,
        "data" TEXT,
        "request_id" TEXT,
        "created_at" INTEGER NOT NULL
    )
"""
EVENTS = """
    INSERT INTO event_new
    SELECT event.number, event_id(event.id), organization.number, event.profile, event_type(event.type), post.number,
        event_scheduled(event.type, event.data, event.created_at, post.published_at),
        event_data(event.type, event.data, event.created_at, post.published_at),
        iif(post.number IS NULL, event.request_id, nullif(event.request_id, batch.request_id)), event.created_at
    FROM event CROSS JOIN organization ON organization.id = event.organization
    LEFT JOIN post ON post.id = event.post LEFT JOIN batch ON batch.id = post.batch
    WHERE event.number > ? AND event.number <= ? ORDER BY event.number
"""
INDEXES = (
    'CREATE UNIQUE INDEX "event_former_id" ON "event" ("former_id") WHERE former_id IS NOT NULL',
    'CREATE INDEX "event_organization_number" ON "event" ("organization", "number")',
    'CREATE INDEX "event_error" ON "event" ("post") WHERE data IS NULL AND type IN (4, 5)',
)


def up(migrator, db):
    if any(row[1] == "number" for row in db.execute_sql("PRAGMA table_info('organization')").fetchall()):
        return
    db.execute_sql("PRAGMA foreign_keys = 0")
    try:
        with db.atomic():
            number_organizations(db)
            rebuild_events(db)
    finally:
        db.execute_sql("PRAGMA foreign_keys = 1")


def number_organizations(db):
    db.execute_sql(ORGANIZATION)
    db.execute_sql(
        "INSERT INTO organization_new (id, name, tier, created_at) "
        "SELECT id, name, tier, created_at FROM organization ORDER BY rowid"
    )
    put_in_place(db, "organization", ['CREATE UNIQUE INDEX "organization_id" ON "organization" ("id")'])


def rebuild_events(db):
    for name, count, made in FUNCTIONS:
        db.connection().create_function(name, count, made, deterministic=True)
    db.execute_sql(EVENT)
    last = db.execute_sql("SELECT coalesce(max(number), 0) FROM event").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(EVENTS, (after, after + PART))
        if last > PART:
            log.info("event: %d of %d rows are written anew", min(after + PART, last), last)
    put_in_place(db, "event", INDEXES)


def put_in_place(db, table, indexes):
    db.execute_sql(f'DROP TABLE "{table}"')
    db.execute_sql(f'ALTER TABLE "{table}_new" RENAME TO "{table}"')
    for index in indexes:
        db.execute_sql(index)


def bytes_of(id):
    """The 16 bytes that an id stands for; what is none, as no version has made any, as it is."""
    value = 0
    for character in id[4:]:
        value = value * 62 + DIGITS.get(character, 1 << 128)
    if id[:4] != "evt_" or len(id) != 26 or value >> 128:
        return id.encode()
    return value.to_bytes(16, "big")


def scheduled_of(type_, data, at, published_at):
    """The time that the usual data of a type begins with; None for no time, and where `data_of` keeps the data."""
    found = SCHEDULED.match(data)
    if not is_usual(type_, data, found, at, published_at) or not found[1]:
        return None
    return (datetime.fromisoformat(found[1]) - EPOCH) // timedelta(milliseconds=1)


def data_of(type_, data, at, published_at):
    return None if is_usual(type_, data, SCHEDULED.match(data), at, published_at) else data


def is_usual(type_, data, found, at, published_at):
    if found is None or type_ not in USUAL:
        return False
    end = data[found.end() :]
    if type_ == "post.published" and published_at is not None:
        return end.replace("\x02", f'"{iso(at)}"') == USUAL[type_].replace("{published}", iso(published_at))
    return end == USUAL[type_]


def iso(ms):
    return f"{EPOCH + timedelta(seconds=ms // 1000):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


FUNCTIONS = (
    ("event_id", 1, bytes_of),
    ("event_type", 1, NUMBER.__getitem__),
    ("event_scheduled", 4, scheduled_of),
    ("event_data", 4, data_of),
)
