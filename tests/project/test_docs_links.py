"""Links between the repository's documents lead to existing files and headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for file, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


def test_no_page_installs_our_packages_by_name_from_a_registry() -> None:
    """They are files of the release: under their names, a registry has nothing, or what a stranger put there."""
    folders = (ROOT / "docs", ROOT / "templates" / "docs", ROOT / "clients" / "python")
    files = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in {".md", ".html", ".txt", ".yml"}
    ]
    installs = {
        line for path in files for line in re.findall(r"\b(?:pip|pipx|uv) install\b[^\n<`#]*", path.read_text())
    }
    assert len(installs) > 5
    assert [line for line in installs if re.search(r"[ '\"]socialpub(?:-client)?(?:[\[ '\"]|$)", line)] == []
