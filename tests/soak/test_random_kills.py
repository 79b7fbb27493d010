"""200 random SIGKILLs with upstream faults: no post is lost or published twice.

Faults hit 14 % of the upstream calls. A worker with naive retries breaks the same invariants.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.reporting import ReportLine
from tests.support.soak.server_kills import run_random_kills
from tests.support.soak.soak_world import configured_count, new_seed

pytestmark = pytest.mark.slow


def test_random_kills_lose_and_double_nothing(tmp_path: Path, tell: ReportLine) -> None:
    result = run_random_kills(
        tmp_path, new_seed(), kills=configured_count("kills", 200), each=configured_count("posts", 250)
    )
    tell(result.table("random SIGKILLs, upstream faults on 14 % of calls"))
    assert result.report.whole, "\n".join(result.report.lines())
    assert result.report.posts == 3 * configured_count("posts", 250)
    assert set(result.report.by_platform) == {"bluesky", "crate", "plain"}


def test_the_same_run_with_naive_retry_breaks_the_invariants(tmp_path: Path, tell: ReportLine) -> None:
    result = run_random_kills(
        tmp_path,
        new_seed(),
        kills=configured_count("naive_kills", 50),
        each=configured_count("naive_posts", 100),
        naive=True,
    )
    tell(result.table("the same with naive retry, which must fail"))
    assert result.report.doubled
