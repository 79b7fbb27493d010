"""Fake platforms, in the order of their ports.

A fake platform is a module or package with a class that implements `FakePlatform`, and its line below. It has its own
accounts, tokens and rules; faults, latency, call log, page and ports come with the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.contract import FakePlatform
from socialpub.simulator.facebook import Facebook
from socialpub.simulator.instagram import Instagram
from socialpub.simulator.linkedin import LinkedIn
from socialpub.simulator.pinterest import Pinterest
from socialpub.simulator.state import SimulatorState
from socialpub.simulator.threads import Threads
from socialpub.simulator.tiktok import Tiktok
from socialpub.simulator.twitter import Twitter

FAKES: Mapping[str, Callable[[SimulatorState], FakePlatform]] = {
    "bluesky": Bluesky,
    "facebook": Facebook,
    "instagram": Instagram,
    "linkedin": LinkedIn,
    "pinterest": Pinterest,
    "threads": Threads,
    "tiktok": Tiktok,
    "twitter": Twitter,
}
