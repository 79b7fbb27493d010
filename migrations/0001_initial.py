"""The first schema. These models are a frozen copy: later migrations change the tables, never this file."""

from peewee import *


class Base(Model):
    class Meta:
        legacy_table_names = False


class Job(Base):
    key = TextField(primary_key=True)
    kind = TextField()
    lane = TextField()
    visible_at = BigIntegerField()
    claims = IntegerField(default=0)
    epoch = IntegerField(null=True)

    class Meta:
        table_name = "job"
        indexes = ((("visible_at", "lane", "key"), False),)


def refers_to(model, name, **options):
    return ForeignKeyField(model, column_name=name, lazy_load=False, **({"index": False} | options))


class Instance(Base):
    id = IntegerField(primary_key=True)
    epoch = IntegerField(default=0)
    beat = IntegerField(default=0)
    mark = TextField(default="")
    paused = TextField(null=True)
    seen_at = BigIntegerField(default=0)
    key_id = TextField(null=True)
    client_key = TextField(null=True)


class Organization(Base):
    id = TextField(primary_key=True)
    name = TextField()
    tier = TextField(default="self_host")
    created_at = BigIntegerField()


class Profile(Base):
    id = TextField(primary_key=True)
    organization = refers_to(Organization, "organization")
    name = TextField()
    slug = TextField()
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)

    class Meta:
        indexes = ((("organization", "slug"), True),)


class User(Base):
    id = TextField(primary_key=True)
    organization = refers_to(Organization, "organization", index=True)
    email = TextField(unique=True)
    role = TextField()
    password = TextField(null=True)
    created_at = BigIntegerField()


class Session(Base):
    id = TextField(primary_key=True)
    user = refers_to(User, "user", index=True)
    csrf = TextField()
    created_at = BigIntegerField()
    seen_at = BigIntegerField()
    ends_at = BigIntegerField()


class ApiKey(Base):
    id = TextField(primary_key=True)
    organization = refers_to(Organization, "organization", index=True)
    profile = refers_to(Profile, "profile", null=True)
    name = TextField()
    prefix = TextField()
    last4 = TextField()
    digest = TextField(unique=True)
    created_at = BigIntegerField()
    last_used_at = BigIntegerField(null=True)
    revoked_at = BigIntegerField(null=True)


class Account(Base):
    id = TextField(primary_key=True)
    organization = refers_to(Organization, "organization")
    profile = refers_to(Profile, "profile")
    platform = TextField()
    platform_account_id = TextField()
    display_name = TextField(null=True)
    status = TextField(default="active")
    secret = TextField(null=True)
    token_expires_at = BigIntegerField(null=True)
    extra = TextField(default="{}")
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    disconnected_at = BigIntegerField(null=True)

    class Meta:
        indexes = (
            (("organization", "profile", "platform"), False),
            (("profile", "platform", "platform_account_id"), True),
        )


class Media(Base):
    id = TextField(primary_key=True)
    organization = refers_to(Organization, "organization")
    profile = refers_to(Profile, "profile", null=True)
    content_type = TextField()
    kind = TextField()
    size_bytes = BigIntegerField()
    sha256 = TextField(index=True)
    width = IntegerField(null=True)
    height = IntegerField(null=True)
    frames = IntegerField(null=True)
    duration_ms = BigIntegerField(null=True)
    alt_text = TextField(null=True)
    created_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)

    class Meta:
        indexes = ((("organization", "created_at", "id"), False),)


class Batch(Base):
    id = TextField(primary_key=True)
    organization = refers_to(Organization, "organization")
    request_id = TextField(null=True)
    created_at = BigIntegerField()
    scheduled_at = BigIntegerField(null=True)


class Post(Base):
    number = AutoField()
    id = TextField(unique=True)
    organization = refers_to(Organization, "organization")
    profile = refers_to(Profile, "profile")
    account = refers_to(Account, "account")
    platform = TextField()
    batch = refers_to(Batch, "batch")
    position = IntegerField()
    status = TextField()
    text = TextField()
    text_fold = TextField()
    media = TextField()
    options = TextField()
    first_comment = TextField(null=True)
    scheduled_at = BigIntegerField(null=True)
    next_attempt_at = BigIntegerField(null=True)
    published_at = BigIntegerField(null=True)
    platform_uri = TextField(null=True)
    platform_cid = TextField(null=True)
    url = TextField(null=True)
    first_comment_uri = TextField(null=True)
    first_comment_cid = TextField(null=True)
    error = TextField(null=True)
    error_code = TextField(null=True)
    warnings = TextField(default="[]")
    attempts = IntegerField(default=0)
    tries = IntegerField(default=0)
    draft_at = BigIntegerField(null=True)
    draft_nonce = BigIntegerField(null=True)
    saved = TextField(null=True)
    created_at = BigIntegerField()
    updated_at = BigIntegerField()

    class Meta:
        indexes = (
            (("organization", "created_at", "id"), False),
            (("profile", "created_at", "id"), False),
            (("organization", "status", "platform", "created_at", "id"), False),
            (("profile", "status", "platform", "created_at", "id"), False),
            (("number", "status", "error_code"), False),
            (("batch", "position"), True),
            (("account", "created_at"), False),
        )


for owner in (Post.organization, Post.profile):
    Post.add_index(
        Post.index(
            owner,
            Post.error_code,
            Post.status,
            Post.platform,
            Post.created_at,
            Post.id,
            name=f"post_{owner.column_name}_error_code",
        ).where(SQL("error_code IS NOT NULL"))
    )
Post.add_index(
    Post.index(Post.status, name="post_open").where(SQL("status IN ('queued', 'validated', 'publishing')"))
)
Post.add_index(
    Post.index(Post.account, Post.scheduled_at, name="post_scheduled").where(SQL("scheduled_at IS NOT NULL"))
)


class Attempt(Base):
    id = TextField(primary_key=True)
    post = refers_to(Post, "post", field="id")
    number = IntegerField()
    started_at = BigIntegerField()
    finished_at = BigIntegerField(null=True)
    succeeded = BooleanField(null=True)
    error_code = TextField(null=True)
    error_message = TextField(null=True)
    platform_response = TextField(null=True)

    class Meta:
        indexes = ((("post", "number"), True),)


class Intent(Base):
    id = TextField(primary_key=True)
    post = refers_to(Post, "post", field="id")
    attempt = refers_to(Attempt, "attempt")
    account = refers_to(Account, "account")
    step = TextField()
    number = IntegerField()
    plan = TextField()
    epoch = IntegerField()
    intent_at = BigIntegerField()
    sent_at = BigIntegerField(null=True)
    sends = IntegerField(default=0)
    looks = IntegerField(default=0)
    answered = BooleanField(default=False)
    refusal = TextField(null=True)
    outcome = TextField(null=True)
    remote_id = TextField(null=True)
    result = TextField(null=True)
    evidence = TextField(null=True)
    settled_at = BigIntegerField(null=True)
    settled_by = TextField(null=True)

    class Meta:
        indexes = ((("post", "step", "number"), True),)


Intent.add_index(
    Intent.index(Intent.post, Intent.step, unique=True, name="intent_open").where(SQL("outcome IS NULL"))
)
Intent.add_index(
    Intent.index(Intent.account, Intent.remote_id, unique=True, name="intent_remote").where(
        SQL("remote_id IS NOT NULL")
    )
)


class Event(Base):
    number = AutoField()
    id = TextField(unique=True)
    organization = refers_to(Organization, "organization")
    profile = refers_to(Profile, "profile", null=True)
    type = TextField()
    post = refers_to(Post, "post", field="id", null=True)
    data = TextField()
    request_id = TextField(null=True)
    created_at = BigIntegerField()

    class Meta:
        indexes = ((("organization", "number"), False), (("post", "number"), False))


class Idempotency(Base):
    id = TextField(primary_key=True)
    organization = refers_to(Organization, "organization")
    fingerprint = TextField()
    status = IntegerField(null=True)
    body = TextField(null=True)
    sealed = BooleanField(default=False)
    batch = TextField(null=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class Usage(Base):
    organization = refers_to(Organization, "organization")
    period = TextField()
    posts = IntegerField(default=0)
    warned = BooleanField(default=False)
    exceeded = BooleanField(default=False)

    class Meta:
        indexes = ((("organization", "period"), True),)


TABLES = (
    Job,
    Instance,
    Organization,
    Profile,
    User,
    Session,
    ApiKey,
    Account,
    Media,
    Batch,
    Post,
    Attempt,
    Intent,
    Event,
    Idempotency,
    Usage,
)


def up(migrator, db):
    with db.bind_ctx(TABLES):
        db.create_tables(TABLES, safe=False)
