"""Simulator process with the test-only platforms; prints its addresses as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from socialpub.simulator import server
from tests.support.soak import extra_platforms


def main() -> None:
    extra_platforms.register()

    def ready(running: server.RunningSimulator) -> None:
        print(json.dumps({"url": running.url, "origins": running.origins}), flush=True)

    server.run(ledger=Path(sys.argv[1]), ready=ready)


if __name__ == "__main__":
    main()
