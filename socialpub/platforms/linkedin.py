"""LinkedIn members and organization pages through the versioned Posts API."""

from __future__ import annotations

from typing import Literal

from socialpub.platforms.base import NO_KEY, Account, Cap, Counter, Draft, Platform, Site
from socialpub.platforms.linkedin_rules import RULES, TEXT_MAX, text_length
from socialpub.platforms.options import Options


class LinkedinSite(Site):
    """The hosts of LinkedIn."""

    api_base: str = "https://api.linkedin.com"
    """Where the API is: a bare origin."""
    authorize_url: str = "https://www.linkedin.com/oauth/v2/authorization"
    token_url: str = "https://www.linkedin.com/oauth/v2/accessToken"


class LinkedinOptions(Options):
    """Who may see the post; a page always posts for everybody."""

    platform: Literal["linkedin"] = "linkedin"
    visibility: Literal["PUBLIC", "CONNECTIONS"] = "PUBLIC"


def _count(draft: Draft, _: Account) -> Counter:
    return Counter(text_length(draft.text), TEXT_MAX, "characters")


PLATFORM = Platform(
    name="linkedin",
    label="LinkedIn",
    send_class=NO_KEY,
    options=LinkedinOptions,
    rules=RULES,
    caps=(Cap(150, 86_400),),
    count=_count,
    site=LinkedinSite,
    version="202609",
    sunset_at="2027-09-15T00:00:00.000Z",  # one year after its release: the announced day is not published yet
    alt_text=("image",),
    media={"images": 20, "videos": 1, "mixed": False, "types": ("image/jpeg", "image/png", "image/gif", "video/mp4")},
)
