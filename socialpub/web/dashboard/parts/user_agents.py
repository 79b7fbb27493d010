"""Names of browsers from their User-Agent: "Firefox on Linux"."""

from __future__ import annotations

BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"),
    ("CriOS", "Chrome"),
    ("HeadlessChrome", "Chrome"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
    ("curl", "curl"),
)
SYSTEMS = (
    ("iPhone", "an iPhone"),
    ("iPad", "an iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Macintosh", "a Mac"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
"""Parts of a User-Agent and their names. The first match wins: each browser also claims to be those below it."""


def describe(agent: str) -> str:
    """Return the browser and its system, as far as they are known."""
    program, system = _find_label(agent, BROWSERS) or "A browser", _find_label(agent, SYSTEMS)
    return f"{program} on {system}" if system else program


def _find_label(agent: str, table: tuple[tuple[str, str], ...]) -> str:
    return next((said for sign, said in table if sign in agent), "")
