"""Lexicons used for posts, as tables.

Source: bluesky-social/atproto, lexicons/, 2026-08-20.
"""

from __future__ import annotations

from collections.abc import Mapping

from socialpub.simulator.bluesky.lexicon import (
    Array,
    BlobRef,
    Boolean,
    Integer,
    Nullable,
    Object,
    Record,
    Schema,
    String,
    Union,
)

_TEXT = String()
_URI, _AT_URI, _CID, _DID, _DATETIME = (String(format=name) for name in ("uri", "at-uri", "cid", "did", "datetime"))

STRONG_REF = Object({"uri": _AT_URI, "cid": _CID}, required=("uri", "cid"))
_SIDE = Integer(minimum=1)
_ASPECT_RATIO = Object({"width": _SIDE, "height": _SIDE}, required=("width", "height"))

_IMAGE = BlobRef(accept=("image/*",), max_size=2_000_000)
_IMAGES = Object(
    {
        "images": Array(
            Object({"image": _IMAGE, "alt": _TEXT, "aspectRatio": _ASPECT_RATIO}, required=("image", "alt")),
            max_length=4,
        )
    },
    required=("images",),
)
_GALLERY_IMAGE = Object(
    {"image": _IMAGE, "alt": _TEXT, "aspectRatio": _ASPECT_RATIO}, required=("image", "alt", "aspectRatio")
)
_GALLERY = Object(
    {"items": Array(Union({"app.bsky.embed.gallery#image": _GALLERY_IMAGE}), max_length=20)}, required=("items",)
)
_CAPTION = Object(
    {"lang": String(format="language"), "file": BlobRef(accept=("text/vtt",), max_size=20_000)},
    required=("lang", "file"),
)
_VIDEO = Object(
    {
        "video": BlobRef(accept=("video/mp4",), max_size=300_000_000),
        "captions": Array(_CAPTION, max_length=20),
        "alt": _TEXT,
        "aspectRatio": _ASPECT_RATIO,
        "presentation": _TEXT,
    },
    required=("video",),
)
_EXTERNAL = Object(
    {
        "external": Object(
            {
                "uri": _URI,
                "title": _TEXT,
                "description": _TEXT,
                "thumb": BlobRef(accept=("image/*",), max_size=1_000_000),
                "associatedRefs": Array(STRONG_REF),
            },
            required=("uri", "title", "description"),
        )
    },
    required=("external",),
)
_QUOTE = Object({"record": STRONG_REF}, required=("record",))
_MEDIA: Mapping[str, Schema] = {
    "app.bsky.embed.images": _IMAGES,
    "app.bsky.embed.video": _VIDEO,
    "app.bsky.embed.gallery": _GALLERY,
    "app.bsky.embed.external": _EXTERNAL,
}
_QUOTE_WITH_MEDIA = Object({"record": _QUOTE, "media": Union(_MEDIA)}, required=("record", "media"))
_EMBED = Union({**_MEDIA, "app.bsky.embed.record": _QUOTE, "app.bsky.embed.recordWithMedia": _QUOTE_WITH_MEDIA})

_TAG = String(max_length=640, max_graphemes=64)
_BYTE = Integer(minimum=0)
_FACET = Object(
    {
        "index": Object({"byteStart": _BYTE, "byteEnd": _BYTE}, required=("byteStart", "byteEnd")),
        "features": Array(
            Union(
                {
                    "app.bsky.richtext.facet#mention": Object({"did": _DID}, required=("did",)),
                    "app.bsky.richtext.facet#link": Object({"uri": _URI}, required=("uri",)),
                    "app.bsky.richtext.facet#tag": Object({"tag": _TAG}, required=("tag",)),
                }
            )
        ),
    },
    required=("index", "features"),
)
_ENTITY = Object(
    {"index": Object({"start": _BYTE, "end": _BYTE}, required=("start", "end")), "type": _TEXT, "value": _TEXT},
    required=("index", "type", "value"),
)
_LABEL = Object({"val": String(max_length=128)}, required=("val",))
_SELF_LABELS = Object({"values": Array(_LABEL, max_length=10)}, required=("values",))

POST = Object(
    {
        "text": String(max_length=3000, max_graphemes=300),
        "entities": Array(_ENTITY),
        "facets": Array(_FACET),
        "reply": Object({"root": STRONG_REF, "parent": STRONG_REF}, required=("root", "parent")),
        "embed": _EMBED,
        "langs": Array(String(format="language"), max_length=3),
        "labels": Union({"com.atproto.label.defs#selfLabels": _SELF_LABELS}),
        "tags": Array(_TAG, max_length=8),
        "createdAt": _DATETIME,
    },
    required=("text", "createdAt"),
)

_NOTHING = Object({})
_LIST_RULE = Object({"list": _AT_URI}, required=("list",))
_GATE = "app.bsky.feed.threadgate"
_GATE_RULES: Mapping[str, Schema] = {
    f"{_GATE}#mentionRule": _NOTHING,
    f"{_GATE}#followerRule": _NOTHING,
    f"{_GATE}#followingRule": _NOTHING,
    f"{_GATE}#listRule": _LIST_RULE,
}
THREADGATE = Object(
    {
        "post": _AT_URI,
        "allow": Array(Union(_GATE_RULES), max_length=5),
        "createdAt": _DATETIME,
        "hiddenReplies": Array(_AT_URI, max_length=300),
    },
    required=("post", "createdAt"),
)
POSTGATE = Object(
    {
        "createdAt": _DATETIME,
        "post": _AT_URI,
        "detachedEmbeddingUris": Array(_AT_URI, max_length=50),
        "embeddingRules": Array(Union({"app.bsky.feed.postgate#disableRule": _NOTHING}), max_length=5),
    },
    required=("post", "createdAt"),
)

RECORDS: Mapping[str, Schema] = {
    "app.bsky.feed.post": POST,
    "app.bsky.feed.threadgate": THREADGATE,
    "app.bsky.feed.postgate": POSTGATE,
}
"""Validated record types; their keys are TIDs. Other types are accepted unchecked."""

# --- What operations are sent ---------------------------------------------------------------------------------------

_REPO, _NSID, _RKEY = String(format="at-identifier"), String(format="nsid"), String(format="record-key", max_length=512)
_WRITE: Mapping[str, Schema] = {
    "repo": _REPO,
    "collection": _NSID,
    "rkey": _RKEY,
    "validate": Boolean(),
    "record": Record(),
    "swapRecord": Nullable(_CID),
    "swapCommit": _CID,
}
_BATCH = "com.atproto.repo.applyWrites"
_BATCH_WRITES: Mapping[str, Schema] = {
    f"{_BATCH}#create": Object(
        {"collection": _NSID, "rkey": _RKEY, "value": Record()}, required=("collection", "value")
    ),
    f"{_BATCH}#update": Object(
        {"collection": _NSID, "rkey": _RKEY, "value": Record()}, required=("collection", "rkey", "value")
    ),
    f"{_BATCH}#delete": Object({"collection": _NSID, "rkey": _RKEY}, required=("collection", "rkey")),
}
INPUTS: Mapping[str, Object] = {
    "com.atproto.repo.createRecord": Object(
        {key: _WRITE[key] for key in _WRITE if key != "swapRecord"}, required=("repo", "collection", "record")
    ),
    "com.atproto.repo.putRecord": Object(_WRITE, required=("repo", "collection", "rkey", "record")),
    "com.atproto.repo.deleteRecord": Object(
        {"repo": _REPO, "collection": _NSID, "rkey": _RKEY, "swapRecord": _CID, "swapCommit": _CID},
        required=("repo", "collection", "rkey"),
    ),
    "com.atproto.repo.applyWrites": Object(
        {"repo": _REPO, "validate": Boolean(), "writes": Array(Union(_BATCH_WRITES, closed=True)), "swapCommit": _CID},
        required=("repo", "writes"),
    ),
    "com.atproto.server.createSession": Object(
        {"identifier": _TEXT, "password": _TEXT, "authFactorToken": _TEXT, "allowTakendown": Boolean()},
        required=("identifier", "password"),
    ),
    "com.atproto.server.createAccount": Object(
        {"email": _TEXT, "handle": String(format="handle"), "password": _TEXT}, required=("handle",)
    ),
    "com.atproto.server.createAppPassword": Object({"name": _TEXT, "privileged": Boolean()}, required=("name",)),
    "com.atproto.server.revokeAppPassword": Object({"name": _TEXT}, required=("name",)),
    "com.atproto.server.deactivateAccount": Object({"deleteAfter": _DATETIME}),
    "app.bsky.video.startUpload": Object(
        {
            "sizeBytes": Integer(minimum=1),
            "mimeType": String(max_length=255),
            "name": String(max_length=256),
            "durationMs": Integer(),
            "width": Integer(),
            "height": Integer(),
        },
        required=("sizeBytes", "mimeType"),
    ),
    "app.bsky.video.finishUpload": Object({"jobId": String(max_length=256)}, required=("jobId",)),
    "com.atproto.admin.updateSubjectStatus": Object({"subject": Record(), "takedown": Record()}, required=("subject",)),
}

PARAMS: Mapping[str, Object] = {
    "com.atproto.identity.resolveHandle": Object({"handle": String(format="handle")}, required=("handle",)),
    "com.atproto.repo.getRecord": Object(
        {"repo": _REPO, "collection": _NSID, "rkey": String(format="record-key"), "cid": _CID},
        required=("repo", "collection", "rkey"),
    ),
    "com.atproto.repo.listRecords": Object(
        {
            "repo": _REPO,
            "collection": _NSID,
            "limit": Integer(minimum=1, maximum=100),
            "cursor": _TEXT,
            "reverse": Boolean(),
        },
        required=("repo", "collection"),
    ),
    "com.atproto.repo.describeRepo": Object({"repo": _REPO}, required=("repo",)),
    "com.atproto.server.getServiceAuth": Object(
        {"aud": _TEXT, "exp": Integer(), "lxm": String(format="nsid")}, required=("aud",)
    ),
    "app.bsky.actor.getProfile": Object({"actor": _REPO}, required=("actor",)),
}
