"""Classes of answers, made on first use: that takes longer than the rest of the import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from socialpub_client.answers import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        from socialpub_client import answers

        return getattr(answers, name)
