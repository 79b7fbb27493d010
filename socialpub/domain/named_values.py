"""Values that people save under a name: JSON in one column, bounded in number and size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from socialpub.base.errors import ApiError


@dataclass(frozen=True)
class NamedValues:
    """A kind of saved values and its limits. `noun`: what one is called, such as `view`."""

    noun: str
    count_max: int
    name_max: int  # characters
    size_max: int  # of one value
    too_much: str  # the message beyond `count_max` or `size_max`

    def change(self, saved: Mapping[str, Any], name: str, value: Any) -> str:
        """Return the values as JSON, with this one under the name; an empty one removes the name.

        Raises ApiError `validation_failed` beyond the limits.
        """
        if not value:
            return json.dumps({other: kept for other, kept in saved.items() if other != name})
        if not 0 < len(name) <= self.name_max:
            raise ApiError("validation_failed", f"A {self.noun} needs a name of 1 to {self.name_max} characters.")
        if len(value) > self.size_max or len(saved.keys() | {name}) > self.count_max:
            raise ApiError("validation_failed", self.too_much)
        return json.dumps({**saved, name: value})
