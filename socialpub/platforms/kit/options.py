"""Base class of option models: closed, strict, camelCase, no null; and their form fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from socialpub.platforms.kit.checks import is_absolute_url
from socialpub.platforms.kit.text import normalize_line_feeds


class PlatformOptions(BaseModel):
    """`targets[].options` of one platform. An absent field is not in `model_fields_set`."""

    # Built on first use, which keeps the startup short.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, defer_build=True)

    SOURCE: ClassVar[str] = ""  # the platform's documentation of these parameters


def _absolute(url: str) -> str:
    if not is_absolute_url(url):
        raise ValueError("an absolute URL such as https://example.com/page")
    return url


def _line_feeds(value: object) -> object:
    return normalize_line_feeds(value) if isinstance(value, str) else value


LINE_FEEDS = BeforeValidator(_line_feeds)
"""Text whose line breaks become LF before anything counts them."""
OptionText = Annotated[str, LINE_FEEDS]
DigitId = Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
AbsoluteUrl = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2048), AfterValidator(_absolute)]


# --- Forms -----------------------------------------------------------------------------------------------------------

TAG = "platform"


@dataclass(frozen=True)
class OptionField:
    """Option in a form. `choices`: values with labels, the first being the default."""

    name: str
    label: str
    hint: str
    choices: tuple[tuple[str, str], ...] = ()
    several: bool = False  # values separated by commas
    number: bool = False

    def value_of(self, text: str) -> str | bool | int | list[str]:
        """Convert form input to the API value; validation is left to the model."""
        if self.several:
            return [part.strip() for part in text.split(",") if part.strip()]
        if self.number:
            return int(text) if re.fullmatch("[0-9]{1,18}", text) else text
        return {"true": True, "false": False}.get(text, text) if self.choices else text

    def text_of(self, value: object) -> str:
        """Convert an API value to form text."""
        if isinstance(value, list):
            return ", ".join(str(each) for each in value)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return text if not self.choices or text in dict(self.choices) else ""


@cache
def list_fields(options: type[BaseModel]) -> tuple[OptionField, ...]:
    """Return the form fields of a platform's options, without the tag and lists of objects."""
    return tuple(_fields(options))


def _fields(options: type[BaseModel]) -> Iterator[OptionField]:
    for name, field in options.model_fields.items():
        if name == TAG or _has_objects(field.annotation):
            continue
        label = field.title or name.replace("_", " ").capitalize()
        choices = _choices(field.annotation, field.default)
        several, number = get_origin(field.annotation) is list, field.annotation is int
        yield OptionField(field.alias or name, label, field.description or "", choices, several, number)


def _has_objects(annotation: object) -> bool:
    return any(isinstance(item, type) and issubclass(item, BaseModel) for item in get_args(annotation))


def _choices(annotation: object, default: object) -> tuple[tuple[str, str], ...]:
    if annotation is bool:
        return (("", _words(default)), (str(not default).lower(), _words(not default)))
    if get_origin(annotation) is not Literal:
        return ()
    others = [value for value in get_args(annotation) if value != default]
    return (("", _words(default)), *((value, _words(value)) for value in others))


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(value)).replace("_", " ").lower()
