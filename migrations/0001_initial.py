"""The schema: what `socialpub/store/schema/models.py` describes, and the tables of the text search.

Frozen once a version is released: later changes are migrations of their own. A test compares the outcome with the models.
"""

MODELS = """
CREATE TABLE job (
    key TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, serial_group TEXT NOT NULL, visible_at INTEGER NOT NULL,
    claims INTEGER NOT NULL, epoch INTEGER, host TEXT NOT NULL, owner TEXT NOT NULL
);
CREATE INDEX job_kind_visible_at_key_serial_group_host_owner
ON job (kind, visible_at, key, serial_group, host, owner);
CREATE INDEX job_leased ON job (epoch) WHERE epoch IS NOT NULL;

CREATE TABLE instance (
    id INTEGER NOT NULL PRIMARY KEY, uid TEXT NOT NULL, epoch INTEGER NOT NULL, beat INTEGER NOT NULL,
    mark TEXT NOT NULL, paused TEXT, moved TEXT, seen_at INTEGER NOT NULL, key_id TEXT, client_key TEXT,
    signing_key TEXT
);

CREATE TABLE organization (
    number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL, name TEXT NOT NULL, tier TEXT NOT NULL,
    account_groups TEXT, created_at INTEGER NOT NULL, deleted_at INTEGER
);
CREATE UNIQUE INDEX organization_id ON organization (id);

CREATE TABLE profile (
    number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL, organization TEXT NOT NULL REFERENCES organization (id),
    name TEXT NOT NULL, slug TEXT NOT NULL, slots TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    deleted_at INTEGER
);
CREATE UNIQUE INDEX profile_id ON profile (id);
CREATE UNIQUE INDEX profile_organization_slug ON profile (organization, slug);

CREATE TABLE user (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), email TEXT NOT NULL,
    role TEXT NOT NULL, password TEXT, totp TEXT, totp_step INTEGER NOT NULL, zone TEXT, views TEXT,
    created_at INTEGER NOT NULL
);
CREATE INDEX user_organization ON user (organization);
CREATE UNIQUE INDEX user_email ON user (email);

CREATE TABLE session (
    id TEXT NOT NULL PRIMARY KEY, user TEXT NOT NULL REFERENCES user (id), profile TEXT REFERENCES profile (id),
    csrf TEXT NOT NULL, address TEXT NOT NULL, agent TEXT NOT NULL, zone TEXT, proved_at INTEGER NOT NULL, kept TEXT,
    created_at INTEGER NOT NULL, seen_at INTEGER NOT NULL, ends_at INTEGER NOT NULL
);
CREATE INDEX session_user ON session (user);
CREATE INDEX session_ends_at ON session (ends_at);

CREATE TABLE device (
    id TEXT NOT NULL PRIMARY KEY, user TEXT NOT NULL REFERENCES user (id), created_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
);
CREATE INDEX device_user ON device (user);
CREATE INDEX device_ends_at ON device (ends_at);

CREATE TABLE recovery_code (
    id TEXT NOT NULL PRIMARY KEY, user TEXT NOT NULL REFERENCES user (id)
);
CREATE INDEX recovery_code_user ON recovery_code (user);

CREATE TABLE invitation (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), email TEXT NOT NULL,
    role TEXT NOT NULL, digest TEXT NOT NULL, invited_by TEXT NOT NULL REFERENCES user (id),
    created_at INTEGER NOT NULL, ends_at INTEGER NOT NULL
);
CREATE INDEX invitation_organization ON invitation (organization);
CREATE UNIQUE INDEX invitation_digest ON invitation (digest);
CREATE INDEX invitation_invited_by ON invitation (invited_by);
CREATE INDEX invitation_ends_at ON invitation (ends_at);

CREATE TABLE former_user (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), email TEXT NOT NULL,
    removed_at INTEGER NOT NULL
);
CREATE INDEX former_user_organization ON former_user (organization);
CREATE INDEX former_user_removed_at ON former_user (removed_at);

CREATE TABLE api_key (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT REFERENCES profile (id), name TEXT NOT NULL, prefix TEXT NOT NULL, last4 TEXT NOT NULL,
    digest TEXT NOT NULL, scopes TEXT, accounts TEXT, expires_at INTEGER, notice_days INTEGER,
    created_at INTEGER NOT NULL, last_used_at INTEGER, revoked_at INTEGER
);
CREATE INDEX api_key_organization ON api_key (organization);
CREATE UNIQUE INDEX api_key_digest ON api_key (digest);

CREATE TABLE oauth_client (
    id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, redirect_uris TEXT NOT NULL, created_at INTEGER NOT NULL,
    approved_at INTEGER, ends_at INTEGER NOT NULL
);
CREATE INDEX oauth_client_ends_at ON oauth_client (ends_at);

CREATE TABLE authorization_code (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), user TEXT NOT NULL,
    client TEXT NOT NULL, redirect_uri TEXT NOT NULL, challenge TEXT NOT NULL, request TEXT NOT NULL, key TEXT,
    created_at INTEGER NOT NULL, ends_at INTEGER NOT NULL
);
CREATE INDEX authorization_code_organization ON authorization_code (organization);
CREATE INDEX authorization_code_ends_at ON authorization_code (ends_at);

CREATE TABLE account (
    number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT NOT NULL REFERENCES profile (id), platform TEXT NOT NULL, platform_account_id TEXT NOT NULL,
    display_name TEXT, status TEXT NOT NULL, secret TEXT, token_expires_at INTEGER, renewed_at INTEGER, ends_at INTEGER,
    renewal_at INTEGER, extra TEXT NOT NULL, attention TEXT, renewals TEXT, renewal_refused_at INTEGER, renewing TEXT,
    renewing_until INTEGER, revoked_reason TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    disconnected_at INTEGER
);
CREATE UNIQUE INDEX account_id ON account (id);
CREATE INDEX account_organization_profile_platform ON account (organization, profile, platform);
CREATE UNIQUE INDEX account_profile_platform_platform_account_id ON account (profile, platform, platform_account_id);

CREATE TABLE platform_app (
    id TEXT NOT NULL PRIMARY KEY, client_id TEXT NOT NULL, secret TEXT NOT NULL, known_at INTEGER,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
);

CREATE TABLE connect_attempt (
    id TEXT NOT NULL PRIMARY KEY, session TEXT NOT NULL, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT NOT NULL REFERENCES profile (id), platform TEXT NOT NULL, secret TEXT NOT NULL, used_at INTEGER,
    choices TEXT, created_at INTEGER NOT NULL, ends_at INTEGER NOT NULL
);
CREATE INDEX connect_attempt_ends_at ON connect_attempt (ends_at);

CREATE TABLE media (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT REFERENCES profile (id), content_type TEXT NOT NULL, kind TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL, width INTEGER, height INTEGER, frames INTEGER, duration_ms INTEGER, frame_rate REAL,
    bit_rate INTEGER, video_codec TEXT, audio_codec TEXT, has_audio INTEGER, alt_text TEXT, created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL, deleted_at INTEGER
);
CREATE INDEX media_sha256 ON media (sha256);
CREATE INDEX media_organization_created_at_id ON media (organization, created_at, id);
CREATE INDEX media_used ON media (used_at) WHERE deleted_at IS NULL;
CREATE INDEX media_kept ON media (size_bytes) WHERE deleted_at IS NULL;
CREATE INDEX media_gone ON media (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX media_held ON media (organization, size_bytes) WHERE deleted_at IS NULL AND size_bytes > 0;

CREATE TABLE batch (
    id TEXT NOT NULL PRIMARY KEY, organization INTEGER NOT NULL REFERENCES organization (number), request_id TEXT,
    created_at INTEGER NOT NULL, scheduled_at INTEGER
) WITHOUT ROWID;

CREATE TABLE external_id (
    organization INTEGER NOT NULL REFERENCES organization (number), id TEXT NOT NULL, batch TEXT NOT NULL,
    content TEXT NOT NULL, PRIMARY KEY (organization, id)
) WITHOUT ROWID;

CREATE TABLE plan_token (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT REFERENCES profile (id), request TEXT NOT NULL, content TEXT NOT NULL, batch TEXT,
    created_at INTEGER NOT NULL, ends_at INTEGER NOT NULL
);
CREATE INDEX plan_token_ends_at ON plan_token (ends_at);
CREATE INDEX plan_token_organization_ends_at ON plan_token (organization, ends_at);

CREATE TABLE post (
    number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL,
    organization INTEGER NOT NULL REFERENCES organization (number),
    profile INTEGER NOT NULL REFERENCES profile (number), account INTEGER NOT NULL REFERENCES account (number),
    platform TEXT NOT NULL, batch TEXT NOT NULL REFERENCES batch (id), position INTEGER NOT NULL, status TEXT NOT NULL,
    text TEXT NOT NULL, text_fold TEXT NOT NULL, media TEXT NOT NULL, own_text INTEGER,
    own_media INTEGER, options TEXT NOT NULL, first_comment TEXT, external_id TEXT,
    scheduled_at INTEGER, next_attempt_at INTEGER, due_at INTEGER, published_at INTEGER, platform_uri TEXT,
    platform_cid TEXT, url TEXT, first_comment_uri TEXT, first_comment_cid TEXT, error TEXT, error_code TEXT,
    warnings TEXT NOT NULL, attempts INTEGER NOT NULL, tries INTEGER NOT NULL, draft_at INTEGER, draft_nonce INTEGER,
    saved TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, thread_of TEXT, thread_position INTEGER,
    previous TEXT
);
CREATE UNIQUE INDEX post_id ON post (id);
CREATE INDEX post_organization_created_at ON post (organization, created_at);
CREATE INDEX post_profile_created_at ON post (profile, created_at);
CREATE INDEX post_organization_status_platform_created_at ON post (organization, status, platform, created_at);
CREATE INDEX post_profile_status_platform_created_at ON post (profile, status, platform, created_at);
CREATE INDEX post_number_status_error_code ON post (number, status, error_code);
CREATE UNIQUE INDEX post_batch_position ON post (batch, position);
CREATE INDEX post_account_created_at ON post (account, created_at);
CREATE INDEX post_organization_error_code
    ON post (organization, error_code, status, platform, created_at) WHERE error_code IS NOT NULL;
CREATE INDEX post_organization_troubled ON post (organization, updated_at) WHERE status IN ('failed', 'rejected');
CREATE INDEX post_profile_error_code
    ON post (profile, error_code, status, platform, created_at) WHERE error_code IS NOT NULL;
CREATE INDEX post_profile_troubled ON post (profile, updated_at) WHERE status IN ('failed', 'rejected');
CREATE INDEX post_external_id ON post (organization, external_id, created_at) WHERE external_id IS NOT NULL;
CREATE INDEX post_open
    ON post (COALESCE(due_at, scheduled_at, created_at)) WHERE status IN ('queued', 'validated', 'publishing');
CREATE INDEX post_open_account ON post (account, number) WHERE status IN ('queued', 'validated', 'publishing');
CREATE INDEX post_open_media ON post (organization)
    WHERE status IN ('queued', 'validated', 'publishing') AND (instr(media, 'med_') > 0 OR instr(options, 'med_') > 0);
CREATE INDEX post_scheduled ON post (account, status, scheduled_at) WHERE scheduled_at IS NOT NULL;

CREATE TABLE draft (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT REFERENCES profile (id), title TEXT, content TEXT NOT NULL, scheduled_at INTEGER,
    status TEXT NOT NULL, note TEXT, problems TEXT NOT NULL, approved_digest TEXT, link_digest TEXT, link_ends_at INTEGER, batch TEXT,
    created_by TEXT NOT NULL, updated_by TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
);
CREATE INDEX draft_organization_created_at_id ON draft (organization, created_at, id);
CREATE UNIQUE INDEX draft_link ON draft (link_digest) WHERE link_digest IS NOT NULL;
CREATE INDEX draft_scheduled ON draft (organization, scheduled_at)
    WHERE status <> 'published' AND scheduled_at IS NOT NULL;

CREATE TABLE draft_media (
    id INTEGER NOT NULL PRIMARY KEY, draft TEXT NOT NULL REFERENCES draft (id),
    media TEXT NOT NULL REFERENCES media (id)
);
CREATE INDEX draft_media_media ON draft_media (media);
CREATE UNIQUE INDEX draft_media_draft_media ON draft_media (draft, media);

CREATE TABLE attempt (
    place INTEGER NOT NULL PRIMARY KEY, id BLOB NOT NULL, post INTEGER NOT NULL REFERENCES post (number),
    number INTEGER NOT NULL, started_at INTEGER NOT NULL, finished_at INTEGER, succeeded INTEGER, error_code TEXT,
    error_message TEXT, platform_response TEXT
);
CREATE UNIQUE INDEX attempt_post_number ON attempt (post, number);

CREATE TABLE intent (
    id INTEGER NOT NULL PRIMARY KEY, post INTEGER NOT NULL REFERENCES post (number), attempt INTEGER NOT NULL,
    account INTEGER NOT NULL REFERENCES account (number), step TEXT NOT NULL, number INTEGER NOT NULL,
    plan TEXT NOT NULL, epoch INTEGER NOT NULL, intent_at INTEGER NOT NULL, sent_at INTEGER, sends INTEGER NOT NULL,
    looks INTEGER NOT NULL, answered INTEGER NOT NULL, refusal TEXT, outcome TEXT, remote INTEGER, result TEXT,
    evidence TEXT, settled_at INTEGER, settled_by TEXT
);
CREATE UNIQUE INDEX intent_post_step_number ON intent (post, step, number);
CREATE UNIQUE INDEX intent_open ON intent (post, step) WHERE outcome IS NULL;
CREATE UNIQUE INDEX intent_remote ON intent (account, remote) WHERE remote IS NOT NULL;
CREATE INDEX intent_unknown ON intent (account) WHERE outcome = 'unknown';

CREATE TABLE event (
    number INTEGER NOT NULL PRIMARY KEY, organization INTEGER NOT NULL REFERENCES organization (number),
    profile TEXT REFERENCES profile (id), type INTEGER NOT NULL, post INTEGER, scheduled_at INTEGER, data TEXT,
    request_id TEXT, created_at INTEGER NOT NULL
);
CREATE INDEX event_organization_number ON event (organization, number);
CREATE INDEX event_error ON event (post) WHERE data IS NULL AND type IN (4, 5);

CREATE TABLE webhook_endpoint (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT REFERENCES profile (id), accounts TEXT, url TEXT NOT NULL, events TEXT NOT NULL, description TEXT,
    active INTEGER NOT NULL, secret TEXT NOT NULL, previous_secret TEXT, previous_until INTEGER,
    previous_accepted INTEGER NOT NULL, failing_since INTEGER, last_delivery_at INTEGER, last_failure_reason TEXT,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, deleted_at INTEGER
);
CREATE INDEX webhook_endpoint_organization ON webhook_endpoint (organization);

CREATE TABLE webhook_delivery (
    number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL, endpoint TEXT NOT NULL REFERENCES webhook_endpoint (id),
    organization TEXT NOT NULL REFERENCES organization (id), profile TEXT REFERENCES profile (id),
    event INTEGER NOT NULL REFERENCES event (number), type TEXT NOT NULL, post TEXT, status TEXT NOT NULL,
    attempts INTEGER NOT NULL, tries INTEGER NOT NULL, next_attempt_at INTEGER, last_status_code INTEGER,
    last_error TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX webhook_delivery_id ON webhook_delivery (id);
CREATE INDEX webhook_delivery_event ON webhook_delivery (event);
CREATE INDEX webhook_delivery_organization_number ON webhook_delivery (organization, number);
CREATE INDEX webhook_delivery_redeliver ON webhook_delivery (endpoint, status, created_at, number, updated_at);
CREATE INDEX webhook_delivery_due ON webhook_delivery (endpoint, next_attempt_at, number) WHERE status = 'pending';

CREATE TABLE webhook_attempt (
    id TEXT NOT NULL PRIMARY KEY, delivery INTEGER NOT NULL REFERENCES webhook_delivery (number),
    started_at INTEGER NOT NULL, duration_ms INTEGER NOT NULL, status_code INTEGER, error TEXT, response_body TEXT
);
CREATE INDEX webhook_attempt_delivery ON webhook_attempt (delivery);

CREATE TABLE notification_channel (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id),
    profile TEXT REFERENCES profile (id), accounts TEXT, kind TEXT NOT NULL, shown TEXT NOT NULL, events TEXT NOT NULL,
    description TEXT, active INTEGER NOT NULL, secret TEXT NOT NULL, failing_since INTEGER, last_delivery_at INTEGER,
    last_failure_reason TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, deleted_at INTEGER
);
CREATE INDEX notification_channel_organization ON notification_channel (organization);

CREATE TABLE notification (
    number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL, channel TEXT NOT NULL REFERENCES notification_channel (id),
    organization TEXT NOT NULL REFERENCES organization (id), profile TEXT REFERENCES profile (id), type TEXT NOT NULL,
    cause TEXT NOT NULL, data TEXT NOT NULL, count INTEGER NOT NULL, follows INTEGER NOT NULL,
    window_ms INTEGER NOT NULL, ends_at INTEGER NOT NULL, status TEXT NOT NULL, attempts INTEGER NOT NULL,
    next_attempt_at INTEGER, last_status_code INTEGER, last_error TEXT, created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX notification_id ON notification (id);
CREATE INDEX notification_organization_number ON notification (organization, number);
CREATE INDEX notification_channel_cause_number ON notification (channel, cause, number);
CREATE INDEX notification_due ON notification (channel, next_attempt_at, number) WHERE status = 'pending';

CREATE TABLE idempotency (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), fingerprint TEXT NOT NULL,
    status INTEGER, body TEXT, sealed INTEGER NOT NULL, batch TEXT, created_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
);
CREATE INDEX idempotency_ends_at ON idempotency (ends_at);
CREATE INDEX idempotency_open ON idempotency (batch) WHERE status IS NULL;
CREATE INDEX idempotency_sealed ON idempotency (id) WHERE sealed = 1;

CREATE TABLE owed (
    id TEXT NOT NULL PRIMARY KEY, batch TEXT NOT NULL, created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE usage (
    id INTEGER NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), period TEXT NOT NULL,
    posts INTEGER NOT NULL, warned INTEGER NOT NULL, exceeded INTEGER NOT NULL
);
CREATE UNIQUE INDEX usage_organization_period ON usage (organization, period);

CREATE TABLE subscription (
    id TEXT NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), variant TEXT NOT NULL,
    tier TEXT NOT NULL, ended INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
);
CREATE INDEX subscription_organization ON subscription (organization);

CREATE TABLE subscription_notice (
    id INTEGER NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id),
    subscription TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, said_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX subscription_notice_subscription_name ON subscription_notice (subscription, name);

CREATE TABLE version_told (
    id INTEGER NOT NULL PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization (id), platform TEXT NOT NULL,
    pin TEXT NOT NULL, told_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX version_told_organization_platform_pin ON version_told (organization, platform, pin);

CREATE TABLE version_asked (
    platform TEXT NOT NULL PRIMARY KEY, pin TEXT NOT NULL, heard TEXT NOT NULL, newer TEXT, next_heard TEXT,
    said TEXT NOT NULL, asked_at INTEGER NOT NULL
);

CREATE TABLE audit (
    number INTEGER NOT NULL PRIMARY KEY, at INTEGER NOT NULL, organization TEXT, key TEXT, user TEXT,
    verb TEXT NOT NULL, subject TEXT, address TEXT NOT NULL, request_id TEXT NOT NULL
);
CREATE INDEX audit_organization_at ON audit (organization, at);
CREATE INDEX audit_organization_verb_at ON audit (organization, verb, at);
CREATE INDEX audit_user ON audit (organization, user, at) WHERE user IS NOT NULL;
"""

# `post_search` is a trigram index over the casefolded texts, filed under `post.number`. Beside the text stand three
# characters of each owner's id and of the platform, so that a search in one profile does not read other texts.
# `post_search_order` has by how much `created_at` has ever gone back as `number` went up; `post_search_filed`, up to
# which number posts are in the index.
SEARCH = """
CREATE VIRTUAL TABLE post_search USING fts5(
    fold, organization, profile, platform, tokenize = 'trigram case_sensitive 1', content = '', columnsize = 0
);
CREATE TABLE post_search_order (id INTEGER PRIMARY KEY, disorder INTEGER NOT NULL);
INSERT INTO post_search_order VALUES (1, 0);
CREATE TABLE post_search_filed (id INTEGER PRIMARY KEY, texts INTEGER NOT NULL);
INSERT INTO post_search_filed VALUES (1, 0);
"""


def up(migrator, db):
    for statement in (MODELS + SEARCH).split(";\n"):
        if statement.strip():
            db.execute_sql(statement.strip())
