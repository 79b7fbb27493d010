"""Benchmark report: a table for the terminal, and a page with plots."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from benchmarks.goals import BenchmarkResult
from benchmarks.servers import ROOT

BESIDE = "## Beside other checkouts"
PAGE = ROOT / "benchmarks" / "results.md"
WIDTH, LABEL, VALUE, LINE = 960, 480, 90, 26  # pixels
COLOURS = {"goal": "#2a9d8f", "must": "#8ab17d", "MISSED": "#e76f51"}


def line(result: BenchmarkResult) -> str:
    """A row of the terminal's table."""
    goal = result.goal
    told = f"{goal.title:<70}{goal.shown(result.value):>12}{goal.told(goal.must):>12}{goal.told(goal.goal):>12}"
    return f"{told}  {result.verdict:<7}{result.note}"


HEAD = f"{'':<70}{'measured':>12}{'must':>12}{'goal':>12}"


def machine() -> str:
    """Where this runs."""
    return (
        f"{os.cpu_count()} cores ({_processor()}), load {os.getloadavg()[0]:.1f}, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def write(results: Sequence[BenchmarkResult], rows: int) -> Path:
    """The page and its plots."""
    shares = [result for result in results if result.goal.at_least]
    limits = [result for result in results if not result.goal.at_least]
    (PAGE.parent / "shares.svg").write_text(_plot(shares, "At least the must (line), and better the goal (mark)", 3))
    (PAGE.parent / "limits.svg").write_text(_plot(limits, "At most the must (line)", 1.5))
    _, found, beside = PAGE.read_text().partition(BESIDE) if PAGE.exists() else ("", "", "")
    PAGE.write_text(_page(results, rows) + (f"\n{found}{beside}" if found else ""))
    return PAGE


@dataclass
class ComparisonTable:
    """A table of several checkouts, measured by turns in one run: (name, lines of the program) of each."""

    sides: list[tuple[str, int]]
    rows: list[tuple[str, list[str]]] = field(default_factory=list)

    def add(self, title: str, values: list[str]) -> None:
        self.rows.append((title, values))


def write_beside(table: ComparisonTable, rows: int) -> Path:
    """The page's part that has this table; the rest of the page stays."""
    names = ["as it is", *(name for name, _ in table.sides[1:])]
    lines = [
        BESIDE,
        "",
        f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, commit {_commit()}, {rows:,} posts with history,",
        "by turns in one run: the share of a bare Sanic handler, requests (or rows) a second, and the server's CPU for",
        "each request.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
        *(f"| {title} | " + " | ".join(values) + " |" for title, values in table.rows),
        "| Lines of the program without its simulator | " + " | ".join(f"{count:,}" for _, count in table.sides) + " |",
        "",
    ]
    page = PAGE.read_text().partition(BESIDE)[0].rstrip("\n")
    PAGE.write_text(page + "\n\n" + "\n".join(lines))
    return PAGE


def summary(results: Sequence[BenchmarkResult]) -> list[str]:
    """Which rows miss their must, and which hold it but are short of their goal."""
    told = []
    for what, verdict in (("Must missed", "MISSED"), ("Must held, goal missed", "must")):
        titles = [result.goal.title for result in results if result.verdict == verdict]
        told.append(f"{what}, {len(titles)} of {len(results)} rows" + (f": {'; '.join(titles)}." if titles else "."))
    return told


def _page(results: Sequence[BenchmarkResult], rows: int) -> str:
    lines = [
        "# What `make bench` measured",
        "",
        f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, commit {_commit()}, {rows:,} posts with history.",
        f"{machine()}.",
        "",
        "socialpub as a process of its own on a durable SQLite file, the bundled simulator as another, wrk with 16",
        "kept connections, everything on the one machine. Shares are of the requests a second that a bare Sanic",
        "handler answers in the same run; every value is the median of its rounds. Read ratios: absolutes hold for no",
        "machine.",
        "",
        *(f"- {sentence}" for sentence in summary(results)),
        "",
        "| | measured | must | goal | | |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        goal, verdict = result.goal, f"**{result.verdict}**" if result.missed else result.verdict
        cells = (goal.title, goal.shown(result.value), goal.told(goal.must), goal.told(goal.goal), verdict, result.note)
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "![Shares](shares.svg)", "", "![Limits](limits.svg)", ""]
    return "\n".join(lines)


def _plot(results: Sequence[BenchmarkResult], title: str, full: float) -> str:
    """Bars of what was measured, each as a part of its must; the right end is `full` times the must."""
    height, unit = LINE * (len(results) + 2), (WIDTH - LABEL - VALUE) / full
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="17" font-weight="bold">{escape(title)}</text>',
    ]
    for number, result in enumerate(results, 1):
        goal, top = result.goal, number * LINE
        part = min(full, max(0.0, result.value / goal.must if goal.must else full * (result.value > 0)))
        parts += [
            f'<text x="8" y="{top + 17}">{escape(goal.title)}</text>',
            f'<rect x="{LABEL}" y="{top + 4}" width="{max(1.0, part * unit):.1f}" height="{LINE - 8}" '
            f'fill="{COLOURS[result.verdict]}"/>',
            f'<text x="{WIDTH - 8}" y="{top + 17}" text-anchor="end">{escape(goal.shown(result.value))}</text>',
        ]
        if goal.goal != goal.must:
            x = LABEL + goal.goal / goal.must * unit
            parts.append(f'<path d="M{x:.1f} {top + 2}v{LINE - 4}" stroke="black" stroke-width="2"/>')
    line = f'<path d="M{LABEL + unit:.1f} {LINE}v{LINE * len(results)}" stroke="black" stroke-dasharray="4 3"/>'
    return "\n".join([*parts, line, "</svg>", ""])


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((one.partition(":")[2].strip() for one in lines if one.startswith("model name")), platform.machine())
