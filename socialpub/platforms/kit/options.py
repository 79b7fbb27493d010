"""What the platforms' option models share: closed, strict, camelCase, no null."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.platforms.kit.checks import is_absolute_url


class Options(BaseModel):
    """`targets[].options` of one platform. A field that was not given is not in `model_fields_set`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


def _absolute(url: str) -> str:
    if not is_absolute_url(url):
        raise ValueError("an absolute URL such as https://example.com/page")
    return url


DigitId = Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
AbsoluteUrl = Annotated[str, Field(max_length=2048), AfterValidator(_absolute)]
