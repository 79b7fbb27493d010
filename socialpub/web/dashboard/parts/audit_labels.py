"""Labels of audited actions, by the route or command in their audit row.

Actions of the API have the label `Operation.summary`. Without a label the log shows the route itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from socialpub.web.http.handler import Route

KIND_LABELS = {
    "signin": "Signing in and out",
    "people": "Members and passwords",
    "keys": "API keys",
    "accounts": "Accounts",
    "posts": "Posts",
    "media": "Media",
    "webhooks": "Webhooks and notifications",
    "settings": "Settings",
}
"""Filters of the log by kind of action."""

KINDS_BY_SEGMENT = {
    "api-keys": "keys",
    "accounts": "accounts",
    "posts": "posts",
    "batches": "posts",
    "drafts": "posts",
    "media": "media",
    "webhook-endpoints": "webhooks",
    "webhook-deliveries": "webhooks",
    "notification-channels": "webhooks",
    "profiles": "settings",
    "slots": "settings",
}
"""Kinds of the API's actions, by the first part of the path."""

LABELS = {
    "signin": {
        "POST /login": "Sign in",
        "POST /login with a recovery code": "Sign in with a recovery code",
        "POST /logout": "Sign out",
        "POST /logout/everywhere": "Sign out everywhere",
        "POST /settings/sessions/end": "End another session",
        "password": "Confirm the password",
    },
    "people": {
        "POST /setup/<token:str>": "Set up this server",
        "POST /invited/<token:str>": "Accept an invitation",
        "POST /settings/members": "Invite a member",
        "POST /settings/invitations/<invitation_id:str>/withdraw": "Withdraw an invitation",
        "POST /settings/members/<member_id:str>": "Change a member's role",
        "POST /settings/members/<member_id:str>/remove": "Remove a member",
        "POST /settings/password": "Change the password",
        "POST /settings/totp": "Turn on two-factor authentication",
        "POST /settings/totp/codes": "Create new recovery codes",
        "POST /settings/totp/off": "Turn off two-factor authentication",
        "command user_create": "Create a user",
        "command user_set_password": "Set a user's password",
        "command user_reset_totp": "Turn off a user's two-factor authentication",
    },
    "keys": {
        "POST /settings/keys": "Create an API key",
        "POST /settings/keys/<key_id:str>/revoke": "Revoke an API key",
        "POST /oauth/authorize": "Allow an assistant to get an API key",
        "POST /oauth/authorize with a refusal": "Refuse an assistant",
        "POST /oauth/token": "Create an API key for an assistant",
        "POST /oauth/token with a used code": "Revoke an assistant's API key: its code was used twice",
        "command key_create": "Create an API key",
        "command key_revoke": "Revoke an API key",
    },
    "accounts": {
        "GET /connect/<platform:str>": "Start connecting an account",
        "POST /connect/<platform:str>": "Connect an account",
        "GET /connect/<platform:str>/callback": "Finish connecting an account",
        "POST /accounts/<account_id:str>/disconnect": "Disconnect an account",
        "POST /compose/groups": "Save or delete a group of accounts",
        "POST /accounts/<account_id:str>/board": "Choose an account's default board",
        "command account_add": "Add an account",
        "command account_connect": "Connect an account",
        "command account_disconnect": "Disconnect an account",
        "POST /settings/apps/<platform:str>": "Save a platform app",
        "POST /settings/apps/<platform:str>/check": "Check a platform app",
        "POST /settings/apps/<platform:str>/remove": "Remove a platform app",
    },
    "posts": {
        "POST /compose": "Publish or schedule a post",
        "POST /drafts": "Save a draft",
        "POST /posts/<post_id:str>/edit": "Edit a scheduled post",
        "POST /drafts/<draft_id:str>/move": "Move a draft",
        "POST /drafts/<draft_id:str>/delete": "Delete a draft",
        "POST /drafts/bulk": "Delete several drafts",
        "POST /drafts/<draft_id:str>/propose": "Propose a draft",
        "POST /drafts/<draft_id:str>/approve": "Approve a draft",
        "POST /drafts/<draft_id:str>/return": "Return a draft",
        "POST /drafts/<draft_id:str>/publish": "Publish a draft",
        "POST /drafts/<draft_id:str>/link": "Create an approval link",
        "POST /drafts/<draft_id:str>/unlink": "Revoke an approval link",
        "POST /approve/<token:str>": "Decide on a draft by its approval link",
        "POST /overview/settle": "Resolve an unknown outcome",
        "POST /overview/retry": "Retry failed posts",
        "POST /overview/cancel": "Cancel posts",
        "POST /posts/bulk": "Change several posts",
        "POST /import/check": "Check a file of posts",
        "POST /import": "Import posts from a file",
        "POST /import/undo": "Cancel the posts of a file",
        "POST /publications/<batch_id:str>/move": "Move a publication",
        "POST /posts/<post_id:str>/cancel": "Cancel a scheduled post",
        "POST /posts/<post_id:str>/settle": "Resolve an unknown outcome",
        "POST /posts/<post_id:str>/move": "Reschedule a post",
        "POST /posts/<post_id:str>/retry": "Retry a post",
    },
    "media": {
        "POST /compose/media": "Upload a file",
        "POST /media": "Upload files",
        "POST /library/<media_id:str>/delete": "Delete a file",
        "POST /library/<media_id:str>/describe": "Describe a file",
        "POST /media/unused": "Delete unused files",
    },
    "webhooks": {
        "POST /webhooks": "Add a webhook endpoint",
        "POST /webhooks/<endpoint_id:str>/test": "Send a test event",
        "POST /webhooks/<endpoint_id:str>/switch": "Turn a webhook endpoint on or off",
        "POST /webhooks/<endpoint_id:str>/redeliver": "Redeliver failed deliveries",
        "POST /webhooks/<endpoint_id:str>/rotate": "Rotate a signing secret",
        "POST /webhooks/<endpoint_id:str>/delete": "Delete a webhook endpoint",
        "POST /deliveries/<delivery_id:str>/redeliver": "Redeliver a delivery",
        "POST /settings/notifications/new/<kind:str>": "Add a notification channel",
        "POST /settings/notifications/<channel_id:str>/test": "Send a test notification",
        "POST /settings/notifications/<channel_id:str>/change": "Change a notification channel",
        "POST /settings/notifications/<channel_id:str>/switch": "Turn a notification channel on or off",
        "POST /settings/notifications/<channel_id:str>/target": "Change the target of a notification channel",
        "POST /settings/notifications/<channel_id:str>/delete": "Delete a notification channel",
    },
    "settings": {
        "POST /overview/resume": "Resume publishing",
        "POST /overview/compare": "Resume publishing after a restore",
        "POST /profile": "Switch profile",
        "POST /settings/zone": "Choose a time zone",
        "POST /posts/views": "Save or delete a view",
        "POST /settings/organization": "Rename the organization",
        "POST /settings/organization/delete": "Delete the organization",
        "command org_rename": "Rename the organization",
        "command org_delete": "Delete the organization",
        "POST /settings/profiles": "Create a profile",
        "POST /settings/profiles/<profile_id:str>": "Rename a profile",
        "POST /settings/profiles/<profile_id:str>/slots": "Define the slots of a profile",
        "POST /settings/profiles/<profile_id:str>/delete": "Delete a profile",
        "command org_set_tier": "Change the tier",
        "command profile_create": "Create a profile",
        "POST /billing/lemonsqueezy": "Apply a notice about the subscription",
    },
}
"""Labels of the actions of pages and commands, by kind."""

STRANGERS = {
    "POST /approve/<token:str>": "a holder of the approval link",
    "POST /billing/lemonsqueezy": "Lemon Squeezy",
}
"""Who does these actions without a login."""


def build_labels(routes: Iterable[Route]) -> dict[str, str]:
    """Return the label of every action, by its verb."""
    by_pages = {verb: words for labels in LABELS.values() for verb, words in labels.items()}
    return by_pages | {
        _verb(route): route.operation.summary for route in routes if route.operation and route.method != "GET"
    }


def name_stranger(verb: str) -> str:
    """Return who did an action that has neither a user nor a key."""
    return "the operator" if verb.startswith("command ") else STRANGERS.get(verb, "someone who was not signed in")


def list_verbs(kind: str, routes: Iterable[Route]) -> tuple[str, ...]:
    """Return the verbs of a kind's actions."""
    by_api = [_verb(route) for route in routes if route.operation and route.method != "GET" and _kind(route) == kind]
    return (*LABELS[kind], *by_api)


def _verb(route: Route) -> str:
    return f"{route.method} {route.path}"


def _kind(route: Route) -> str | None:
    return KINDS_BY_SEGMENT.get(route.path.split("/")[2])
