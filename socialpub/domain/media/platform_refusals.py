"""The platforms that refuse a stored file, by the rules on media bytes and on documents."""

from __future__ import annotations

from typing import NamedTuple

from socialpub import platforms
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.platforms.contract import ConnectorAccount, Draft, DraftMedia
from socialpub.platforms.kit.rule_catalog import NO_DOCUMENTS, find_violations
from socialpub.store.rows import MediaRow


class PlatformRefusal(NamedTuple):
    """A platform that refuses a file, with the first rule that it breaks there."""

    platform: str
    label: str
    rule: str
    message: str
    remediation: str


def find_refusals(service: AppContext, row: MediaRow) -> list[PlatformRefusal]:
    """Return the refusals of a file that is published alone, in the order of the platforms."""
    item = DraftMedia(row["kind"], row["alt_text"], stored=True, facts=library.read_facts(row))
    draft, found = Draft("", (item,)), []
    for name, platform in platforms.PLATFORMS.items():
        errors = find_violations(
            platform, service.sites[name], draft, ConnectorAccount(""), stages=("cheap", "deep")
        ).errors
        of_file = [each for each in errors if each.rule.stage == "deep" or each.rule.id == f"{name}.{NO_DOCUMENTS}"]
        for error in of_file[:1]:
            found.append(PlatformRefusal(name, platform.label, error.rule.id, error.message, error.remediation))
    return found
