"""The fake platforms, in the order of their ports. Adding one is adding its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.wire import Fake

if TYPE_CHECKING:
    from socialpub.simulator.lab import Lab

FAKES: Mapping[str, Callable[[Lab], Fake]] = {
    "bluesky": Bluesky,
}
