"""What the reference says about each operation: its name, in what words, with which examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.web import samples

ABOUT = """\
Publish one piece of content to up to 25 social accounts in one request, now or at a time of your choice, and learn for
every account whether it went out, once, and if not, why.

**Authentication.** Send `Authorization: Bearer <API_KEY>`. A key belongs to one organization and may be bound to one of
its profiles; whatever lies outside is 404. Reads also take the session cookie of a signed-in browser.

**Requests** are JSON and closed: an unknown field is refused, and so is null. Times carry a time zone. Ids are opaque.

The request line and the headers together have room for 8 KiB: what is longer goes into the body.

**Answers** are JSON and open: a field may be added, never removed, so ignore what you do not know. Times are UTC with
milliseconds. Every answer has an `X-Request-Id`; send your own in that header to have it kept.

**Errors** all have one shape, `{"error": {…}}`. Switch on `code`; `rule` says which rule was broken, `remediation` what
to do, `docUrl` and `ruleUrl` where this server explains it.

**Repeating** a write is safe with an `Idempotency-Key`: the work is done once, and the same key with the same body gets
the same answer for 24 hours.

**Rate limits** hold for each key and route over a sliding window of 60 seconds; every answer says where you stand.

**HEAD** works wherever GET does, and OPTIONS names an address's methods.\
"""

TAGS: dict[str, str] = {
    "Posts": "Publish, schedule, look up, move, cancel, try again.",
    "Accounts": "The connected accounts that posts go to.",
    "Media": "Files that posts carry: uploaded once, used by id.",
    "Profiles": "The parts of an organization; each owns its accounts.",
    "API keys": "Made, listed and revoked by signed-in people only: a key cannot make keys.",
    "Catalogue": "Every platform, rule and error code, from the tables that the code checks with. No key is needed.",
    "Health": "For monitoring. No key is needed.",
    "Events": "What a webhook endpoint is sent: signed, at least once, in no promised order.",
}


@dataclass(frozen=True)
class Operation:
    """`requests` and `answers` are examples; `outcomes` says what a status means.

    `links`: where in the answer the `id` of other operations stands.
    """

    tag: str
    name: str
    summary: str
    about: str = ""
    requests: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[int, Any] = field(default_factory=dict)
    outcomes: Mapping[int, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


POST_OPERATIONS = ("readPost", "reschedulePost", "cancelPost", "retryPost", "settlePost")

OPERATIONS: dict[str, Operation] = {
    "POST /v1/posts": Operation(
        "Posts",
        "publish",
        "Publish or schedule",
        "Sends one piece of content to 1 to 25 targets: with `scheduledAt` at that time (202), else now (200). What "
        "can be checked beforehand is checked for every target first, and one failure refuses the whole batch, with "
        "every failure of every target listed. After that each target stands for itself; see its entry in `results`. "
        "A target that has not settled within the waiting time has status `publishing` and goes on: look it up at "
        "`Location` later, do not send it again. While nothing has failed, such a batch is `queued` (202). A request "
        "without an Idempotency-Key whose answer could not be delivered, sent again with the same bytes and key within "
        "5 minutes, gets the answer of the first, with warning `joined_undelivered_batch`.",
        {"publish now": samples.PUBLISH, "schedule": samples.SCHEDULE, "one target differs": samples.DIFFERENT},
        {200: samples.BATCH, 202: samples.SCHEDULED_BATCH},
        {
            200: "Every target has ended, or one has failed; `status` and `results` say what became of them.",
            202: "Accepted and not ended: scheduled, or still being published. Nothing has failed.",
        },
        dict.fromkeys(POST_OPERATIONS, "/results/0/postId"),
    ),
    "POST /v1/posts/validate": Operation(
        "Posts",
        "validatePosts",
        "Check without publishing",
        "Takes the body of a publish request, runs every check on every target, and stores and publishes nothing.",
        {"check": samples.PUBLISH},
        {200: samples.VALIDATION},
        {200: "Checked; `valid` says whether a publish request would be accepted."},
    ),
    "GET /v1/posts": Operation(
        "Posts",
        "listPosts",
        "List the post log",
        "One row for each target of each batch, newest first. Filters compose. Go on with `cursor` while `nextCursor` "
        "is not null; rows that are added meanwhile are neither skipped nor shown twice.",
        answers={200: samples.POST_PAGE},
        outcomes={200: "One page."},
        links={"readPost": "/data/0/id"},
    ),
    "GET /v1/posts/{id}": Operation(
        "Posts",
        "readPost",
        "Read one post",
        "The row of the post log with its first comment and every attempt at publishing it.",
        answers={200: samples.POST_DETAIL},
        outcomes={200: "The post."},
    ),
    "PATCH /v1/posts/{id}": Operation(
        "Posts",
        "reschedulePost",
        "Move a scheduled post",
        "Only while the post is `queued` and its time has not come. It is not published before the new time once this "
        "has answered.",
        {"tomorrow": samples.RESCHEDULE},
        {200: samples.POST},
        {200: "The post with its new time."},
    ),
    "DELETE /v1/posts/{id}": Operation(
        "Posts",
        "cancelPost",
        "Cancel a scheduled post",
        "Only while the post is `queued` and its time has not come. It is never published once this has answered.",
        answers={200: samples.CANCELED},
        outcomes={200: "The post is canceled."},
    ),
    "POST /v1/posts/{id}/retry": Operation(
        "Posts",
        "retryPost",
        "Try a failed post again",
        "Publishes a `failed` or `rejected` post from its stored content, as a new attempt and at no quota: at "
        "`scheduledAt`, or at once in the background. A post whose outcome is unknown has to be settled first.",
        {"at once": {}, "later": samples.RESCHEDULE},
        {202: samples.POST},
        {202: "The post is up again."},
    ),
    "POST /v1/posts/{id}/settle": Operation(
        "Posts",
        "settlePost",
        "Say what became of a lost answer",
        "A post that failed with rule `publish.outcome_unknown` may be live: its answer was lost and the platform "
        "could not tell. Look at the account, then say here what you found. A post that is not there may be retried.",
        {"it is there": samples.SETTLE, "it is not": {"published": False}},
        {200: samples.SETTLED},
        {200: "The post, `published` or plainly `failed`."},
    ),
    "GET /v1/accounts": Operation(
        "Accounts",
        "listAccounts",
        "List connected accounts",
        answers={200: {"data": [samples.ACCOUNT]}},
        outcomes={200: "The accounts."},
        links={"readAccount": "/data/0/id"},
    ),
    "GET /v1/accounts/{id}": Operation(
        "Accounts",
        "readAccount",
        "Read one account",
        answers={200: samples.ACCOUNT},
        outcomes={200: "The account."},
    ),
    "POST /v1/accounts/connect/{platform}": Operation(
        "Accounts",
        "connectAccount",
        "Begin to connect an account",
        "Answers either an address of the platform, to which you send the browser and from which it comes back to "
        "`/connect/{platform}/callback`, or the fields to ask for.",
        {"in a profile": {"profileId": samples.PROFILE_ID}},
        {200: samples.CONNECT},
        {200: "How to go on."},
    ),
    "POST /v1/accounts/connect/{platform}/complete": Operation(
        "Accounts",
        "completeAccount",
        "Finish connecting an account",
        "Takes what the login came to. An account that its profile has already keeps its id and gets the new "
        "authorization. A login that offers several accounts is answered with `choices`; each one wanted is then asked "
        "for by `choiceId`, within ten minutes.",
        {
            "back from the platform": {"code": "AQDx…", "state": samples.STATE},
            "a choice": {"choiceId": samples.CHOICE["id"], "state": samples.STATE},
            "credentials": {"handle": "bakery.example.org", "password": "abcd-efgh-ijkl-mnop"},
        },
        {200: {"choices": [samples.CHOICE]}, 201: samples.ACCOUNT},
        {200: "The account, connected before; or the choices.", 201: "The account, new."},
    ),
    "DELETE /v1/accounts/{id}": Operation(
        "Accounts",
        "disconnectAccount",
        "Disconnect an account",
        "Its secrets are erased, its queued posts canceled, and its authorization ended at the platform where that is "
        "possible. Its posts stay in the log, and connecting it again revives its id.",
        answers={200: {"id": samples.ACCOUNT_ID, "deleted": True}},
        outcomes={200: "The account is disconnected."},
    ),
    "GET /v1/accounts/{id}/pinterest/boards": Operation(
        "Accounts",
        "listBoards",
        "List an account's boards",
        "Asked for at the platform, with the account's own authorization.",
        answers={200: {"data": [samples.BOARD], "defaultBoardId": samples.BOARD["id"]}},
        outcomes={200: "The boards."},
    ),
    "PATCH /v1/accounts/{id}/pinterest/default-board": Operation(
        "Accounts",
        "chooseBoard",
        "Choose an account's default board",
        "Used by posts that name no board. The board has to be one of the account's own.",
        {"choose": {"boardId": samples.BOARD["id"]}},
        {200: {"id": samples.ACCOUNT_ID, "defaultBoardId": samples.BOARD["id"], "defaultBoardName": "Bread"}},
        {200: "The default board."},
    ),
    "POST /v1/media": Operation(
        "Media",
        "uploadMedia",
        "Upload a file",
        "Takes one image (JPEG, PNG, WebP, GIF) or video (MP4, QuickTime, WebM) as the part `file`. What it is, is "
        "read from its bytes. Use its `id` in the media of posts.",
        answers={201: samples.MEDIA},
        outcomes={201: "The file is stored."},
        links={"readMedia": "/id", "deleteMedia": "/id"},
    ),
    "GET /v1/media": Operation(
        "Media",
        "listMedia",
        "List files",
        "Newest first. Go on with `cursor` while `nextCursor` is not null.",
        answers={200: {"data": [samples.MEDIA], "nextCursor": None}},
        outcomes={200: "One page."},
        links={"readMedia": "/data/0/id"},
    ),
    "GET /v1/media/{id}": Operation(
        "Media",
        "readMedia",
        "Read a file's record",
        "The bytes are at its `url`.",
        answers={200: samples.MEDIA},
        outcomes={200: "The record."},
    ),
    "DELETE /v1/media/{id}": Operation(
        "Media",
        "deleteMedia",
        "Delete a file",
        "Its address stops answering at once. Refused while a queued post needs it. A key that is bound to a profile "
        "deletes the files of that profile only.",
        answers={200: {"id": samples.MEDIA_ID, "deleted": True}},
        outcomes={200: "The file is gone."},
    ),
    "GET /v1/profiles": Operation(
        "Profiles",
        "listProfiles",
        "List profiles",
        "A key that is bound to a profile sees that one.",
        answers={200: {"data": [samples.PROFILE]}},
        outcomes={200: "The profiles."},
    ),
    "POST /v1/profiles": Operation(
        "Profiles",
        "createProfile",
        "Create a profile",
        requests={"create": {"name": "Corner Bakery"}},
        answers={201: samples.NEW_PROFILE},
        outcomes={201: "The new profile."},
    ),
    "PATCH /v1/profiles/{id}": Operation(
        "Profiles",
        "renameProfile",
        "Rename a profile",
        requests={"rename": {"name": "Corner Bakery"}},
        answers={200: samples.NEW_PROFILE},
        outcomes={200: "The profile with its new name."},
    ),
    "DELETE /v1/profiles/{id}": Operation(
        "Profiles",
        "deleteProfile",
        "Delete a profile",
        "Only one that owns no accounts; keys that are bound to it are revoked.",
        answers={200: {"id": samples.PROFILE_ID, "deleted": True}},
        outcomes={200: "The profile is gone."},
    ),
    "GET /v1/api-keys": Operation(
        "API keys",
        "listKeys",
        "List API keys",
        "The records of the organization's keys; a key itself is stored nowhere.",
        answers={200: {"data": [samples.KEY]}},
        outcomes={200: "The keys."},
    ),
    "POST /v1/api-keys": Operation(
        "API keys",
        "mintKey",
        "Make an API key",
        "The key stands in this answer and nowhere else. Its scope is set for good.",
        requests={"make": {"name": "Newsletter"}, "bind": {"name": "Newsletter", "profileId": samples.PROFILE_ID}},
        answers={201: samples.MINTED_KEY},
        outcomes={201: "The new key."},
    ),
    "DELETE /v1/api-keys/{id}": Operation(
        "API keys",
        "revokeKey",
        "Revoke an API key",
        "It stops working with its next request.",
        answers={200: {"id": samples.KEY_ID, "revokedAt": samples.NOW}},
        outcomes={200: "The key is revoked."},
    ),
    "GET /v1/platforms": Operation(
        "Catalogue",
        "listPlatforms",
        "Platforms and their limits",
        answers={200: {"data": [samples.PLATFORM]}},
        outcomes={200: "The platforms."},
    ),
    "GET /v1/rules": Operation(
        "Catalogue",
        "listRules",
        "Every rule",
        answers={200: {"data": [samples.RULE]}},
        outcomes={200: "The rules."},
    ),
    "GET /v1/errors": Operation(
        "Catalogue",
        "listErrors",
        "Every error code",
        answers={200: {"data": [samples.CODE]}},
        outcomes={200: "The codes."},
    ),
    "GET /healthz": Operation(
        "Health",
        "health",
        "The process answers",
        answers={200: {"status": "ok"}},
        outcomes={200: "It does."},
    ),
    "GET /readyz": Operation(
        "Health",
        "ready",
        "The server can do its work",
        "The database takes writes and the scheduler is alive.",
        answers={200: {"status": "ok", "publishing": "active"}},
        outcomes={200: "It can."},
    ),
}
"""By method and path. A route that answers has an entry here; an entry may wait for its route."""
