"""Values that the reference's examples share. The examples are beside the handlers."""

from __future__ import annotations

from socialpub.domain.schemas.errors import ErrorBody
from socialpub.domain.schemas.events import DraftAuthor

PLATFORM = "bluesky"
OTHER_PLATFORM = "twitter"
OAUTH_PLATFORM = "linkedin"

ACCOUNT_ID = "01997b2e-5c1f-7a40-9a58-0d6c3f1b7e21"
OTHER_ACCOUNT_ID = "01997b2e-61d3-7b92-8c07-4e5a90b2d6f3"
PLATFORM_ACCOUNT_ID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
DISPLAY_NAME = "Corner Bakery"
ORGANIZATION_ID = "01997b2e-4afe-7c31-8d92-5e6b0f3a1c47"
PROFILE_ID = "01997b2e-4b02-7d15-b3c4-7f1e2a6d9083"
BATCH_ID = "01999c41-7e30-7c68-a1f5-3b8d07e4c952"
POST_ID = "01999c41-7e31-7020-8f6b-95d2c1a7e340"
DRAFT_ID = "01999c41-8a11-7d33-b0c2-6f2e94a1d875"
DRAFT_AUTHOR: DraftAuthor = {
    "type": "user",
    "id": "01997b2e-4c10-7e94-a2b7-1d5c8f60e349",
    "name": "kim@example.org",
}
MEDIA_ID = "med_0Bk3xQ9ZrT7uVw2YhN4mLp"

AT_URI = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3lxtq4kz5m22p"
CID = "bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm"
WEB = "https://bsky.app/profile/did:plc:ewvi7nxzyoun6zhxrhs64oiz/post/3lxtq4kz5m22p"
BASE = "https://social.example.org"
STATE = "Zk3vX0m5cH2bQ8rT1nYwLdA7eUoJ9sGfPiK4xRqVtBh"
AUTHORIZE_URL = f"https://www.linkedin.com/oauth/v2/authorization?response_type=code&state={STATE}"

NOW = "2026-11-20T12:00:00.000Z"
DONE = "2026-11-20T12:00:00.640Z"
SOON = "2030-12-01T08:30:00.000Z"

REFUSED: ErrorBody = {
    "code": "platform_auth_failed",
    "message": "The account's authorization was revoked or has expired.",
    "rule": "account.reconnect_required",
    "platform": OTHER_PLATFORM,
    "remediation": "Reconnect the account, then try the post again.",
    "docUrl": f"{BASE}/docs/errors/platform_auth_failed",
    "ruleUrl": f"{BASE}/docs/rules/account.reconnect_required",
}
