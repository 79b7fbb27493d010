"""Forms of pages that send files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from socialpub.domain.media.files import IncomingFile
from socialpub.web.api import media
from socialpub.web.http import forms
from socialpub.web.http.handler import RequestContext
from socialpub.web.http.multipart import PageUploadForm

F = TypeVar("F", bound=PageUploadForm)


async def receive_upload(
    call: RequestContext, make: Callable[[bytes, Callable[[], IncomingFile], int], F], most: int
) -> F:
    """Read a form with its files, which are deleted unless they are stored.

    `most`: the bound that `make` gets, of fields or of files.
    """
    forms.check_origin(call)
    return await media.receive_form(
        call, lambda boundary, open_file: make(boundary, open_file, most), lambda form: form
    )
