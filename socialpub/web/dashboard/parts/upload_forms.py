"""Forms of pages that send files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from socialpub.base.errors import ApiError
from socialpub.domain.media.files import IncomingFile
from socialpub.web.api import media
from socialpub.web.http import forms
from socialpub.web.http.handler import RequestContext
from socialpub.web.http.multipart import PageUploadForm

REFUSED_FORM_RULES = ("media.parse_failed", "media.size_max", "media.missing_file", "media.empty_body")
F = TypeVar("F", bound=PageUploadForm)


async def receive_upload(
    call: RequestContext, make: Callable[[bytes, Callable[[], IncomingFile], int], F], most: int
) -> F:
    """Read a form with its files, which are deleted unless they are stored.

    `most`: the bound that `make` gets, of fields or of files. A form that is refused as a whole has its `error`, and
    the fields that were read before it.
    """
    forms.check_origin(call)
    made: list[F] = []

    def make_and_keep(boundary: bytes, open_file: Callable[[], IncomingFile]) -> F:
        made.append(make(boundary, open_file, most))
        return made[0]

    try:
        return await media.receive_form(call, make_and_keep, lambda form: form)
    except ApiError as error:
        if not made or error.rule not in REFUSED_FORM_RULES:
            raise
        made[0].error = error.with_traceback(None)  # whose frames hold the form
        return made[0]
