"""What the platforms' option models share: closed, strict, camelCase, no null."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Options(BaseModel):
    """`targets[].options` of one platform. A field that was not given is not in `model_fields_set`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


def _absolute(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if not (parts.scheme and parts.hostname) or any(char.isspace() for char in url):
        raise ValueError("an absolute URL such as https://example.com/page")
    return url


DigitId = Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
AbsoluteUrl = Annotated[str, Field(max_length=2048), AfterValidator(_absolute)]
