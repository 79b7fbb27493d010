"""Multipart uploads, parsed while they arrive; small ones whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, MultipartParser, parse_options_header

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.media import probe
from socialpub.domain.media.files import IncomingFile

FILE_FIELD = "file"
FIELDS_MAX = 512 * 1024
PARTS_MAX = 20
TYPE_MAX = 500  # characters of a Content-Type
_UNDECLARED = ("", "application/octet-stream", "binary/octet-stream")
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "video/x-m4v": "video/mp4",
    "video/m4v": "video/mp4",
    "application/mp4": "video/mp4",
    "video/mov": "video/quicktime",
}


def parse_boundary(content_type: str) -> bytes:
    """Return the boundary of a Content-Type. Raises `media.content_type`, `media.parse_failed`."""
    kind, options = parse_options_header(content_type if len(content_type) <= TYPE_MAX else "")
    if kind.lower() != b"multipart/form-data":
        raise rule_error("media.content_type")
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise rule_error("media.parse_failed", "The Content-Type names no usable boundary.")
    return boundary


@dataclass
class _UploadPart:
    headers: dict[str, str] = field(default_factory=dict)
    name: str = ""
    file_name: str = ""
    declared: str = ""
    sniffed: bool = False
    skipped: bool = False  # a file in a field of another name: ignored
    text: bytearray = field(default_factory=bytearray)


class UploadForm:
    """A multipart form being read.

    `feed` and `end` raise ApiError with the rule that the body breaks.
    """

    def __init__(self, boundary: bytes, open_file: Callable[[], IncomingFile], parts_max: int = PARTS_MAX) -> None:
        self.arriving: IncomingFile | None = None
        self._parts_max = parts_max
        self.fields: dict[str, str] = {}
        self._extra_files: list[str] = []  # names of fields with an unexpected file
        self._open_file, self._part = open_file, _UploadPart()
        self._has_data = self._ended = False
        self._parts = self._text = 0
        self._header = (bytearray(), bytearray())
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._open,
                "on_part_data": self._write,
                "on_part_end": self._close,
                "on_end": self._finish,
            },
        )

    def check_size(self, declared: int, most: int) -> None:
        """Check the Content-Length before the body is read."""
        if declared > most:
            raise rule_error("media.size_max")

    def feed(self, data: bytes) -> None:
        """Parse the next chunk of the body. Call it in a thread: it writes to disk."""
        self._has_data = self._has_data or bool(data)
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise rule_error("media.parse_failed") from error

    def end(self) -> None:
        """Check that the body is complete and had a file. The form cannot be fed afterwards."""
        self._release_parser()
        if not self._has_data:
            raise rule_error("media.empty_body")
        if not self._ended:
            raise rule_error("media.parse_failed", "The multipart body is cut short.")
        if self.arriving is None:
            raise rule_error("media.missing_file")
        for name in self._extra_files:
            self.fields.setdefault(name, "")

    def close(self) -> None:
        """Delete the file unless it was moved. The form cannot be fed afterwards."""
        self._release_parser()
        if self.arriving is not None:
            self.arriving.close()

    def _release_parser(self) -> None:
        self._parser.callbacks = {}  # they hold this form, which holds the parser: a reference cycle

    # --- What the parser calls ---

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > self._parts_max:
            raise self._make_parts_error()
        self._part = _UploadPart()

    def _make_parts_error(self) -> ApiError:
        return rule_error("media.parse_failed", f"The multipart body has more than {self._parts_max} parts.")

    def _end_header(self) -> None:
        name, value = (bytes(half).decode("latin-1").strip() for half in self._header)
        self._part.headers[name.lower()] = value
        self._header = (bytearray(), bytearray())

    def _open(self) -> None:
        part = self._part
        _, options = parse_options_header(part.headers.get("content-disposition", ""))
        if b"name" not in options:
            raise rule_error("media.parse_failed", "A part of the multipart body has no name.")
        part.name = options[b"name"].decode("utf-8", "replace")
        part.file_name = options.get(b"filename", b"").decode("utf-8", "replace")
        part.declared = _declared_type(part.headers.get("content-type", ""))
        if part.name == FILE_FIELD:
            if self.arriving is not None:
                raise rule_error("media.single_file")
            self.arriving = self._open_file()
        elif b"filename" in options:
            part.skipped = True
            self._extra_files.append(part.name)

    def _write(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        if part.name == FILE_FIELD and self.arriving is not None:
            self.arriving.write(data[start:end])
            if not part.sniffed and len(self.arriving.head) >= probe.SNIFF_BYTES:
                self._sniff(self.arriving)
        elif not part.skipped:
            self._text += end - start
            if self._text > FIELDS_MAX:
                raise rule_error(
                    "media.parse_failed", f"The fields beside the file have more than {FIELDS_MAX:,} bytes."
                )
            part.text += data[start:end]

    def _sniff(self, arriving: IncomingFile) -> None:
        """Check the file type from its first bytes, before the rest is read."""
        self._part.sniffed = True
        found = probe.sniff(arriving.head)
        if found is None:
            raise rule_error("media.type_unsupported")
        if self._part.declared not in (*_UNDECLARED, found):
            raise rule_error(
                "media.type_mismatch", f"The part is declared as {self._part.declared}, but the file is {found}."
            )

    def _close(self) -> None:
        part = self._part
        if part.name == FILE_FIELD and self.arriving is not None:
            if not self.arriving.size:
                raise rule_error("media.empty_body")
            if not part.sniffed:
                self._sniff(self.arriving)
        elif not part.skipped:
            try:
                self.fields[part.name] = part.text.decode()
            except UnicodeDecodeError as error:
                raise rule_error("media.parse_failed", "A field of the multipart body is not UTF-8.") from error

    def _finish(self) -> None:
        self._ended = True


def _declared_type(content_type: str) -> str:
    kind = parse_options_header(content_type)[0].decode("latin-1").strip().lower()
    return _ALIASES.get(kind, kind)


class PageUploadForm(UploadForm):
    """The upload form of a page: a refused file (`refused`) does not discard the text fields.

    `error`: why the form was not read to its end.
    """

    refused: ApiError | None = None
    error: ApiError | None = None

    def check_size(self, declared: int, most: int) -> None:
        """Check the Content-Length. A file that is too large alone is refused while it arrives."""
        super().check_size(declared, 2 * most)

    def end(self) -> None:
        """Check that the body is complete. A missing file is recorded in `refused`."""
        try:
            super().end()
        except ApiError as error:
            if error.rule != "media.missing_file":
                raise
            self.refused = self.refused or error

    def _open(self) -> None:
        self._record_refusal(super()._open)

    def _write(self, data: bytes, start: int, end: int) -> None:
        self._record_refusal(super()._write, data, start, end)

    def _close(self) -> None:
        self._record_refusal(super()._close)

    def _record_refusal(self, step: Callable[..., None], *arguments: object) -> None:
        try:
            step(*arguments)
        except ApiError as error:
            if self._part.name != FILE_FIELD:
                raise
            self.refused = self.refused or error.with_traceback(None)  # whose frames hold this form
            self._part.skipped = True
            if self.arriving is not None:
                self.arriving.close()
                self.arriving = None


class MediaFilesForm(PageUploadForm):
    """The form of several files: one that is refused (`refusals`) does not discard the others.

    `files_max`: how many. Both lists hold the name that the browser gave each file.
    """

    def __init__(self, boundary: bytes, open_file: Callable[[], IncomingFile], files_max: int) -> None:
        super().__init__(boundary, open_file, files_max + 2)  # and the CSRF token, and the page
        self.files: list[tuple[str, IncomingFile]] = []
        self.refusals: list[tuple[str, ApiError]] = []
        self._files_max = files_max

    def check_size(self, declared: int, most: int) -> None:
        """Check the Content-Length: the files together are no larger than one may be."""
        if declared > most:
            message = "The files are together larger than this server accepts in one upload."
            raise rule_error("media.size_max", message, remediation="Choose fewer. No file was stored.")

    def end(self) -> None:
        """Check that the body is complete. Raises `media.missing_file` without a file."""
        super().end()
        if not self.files and not self.refusals:
            raise rule_error("media.missing_file")

    def close(self) -> None:
        """Delete the files that were not moved."""
        super().close()
        for _, file in self.files:
            file.close()

    def _begin(self) -> None:
        self._keep_file()
        super()._begin()

    def _make_parts_error(self) -> ApiError:
        message = f"Up to {self._files_max} files can be uploaded at once."
        return rule_error("media.parse_failed", message, remediation="Choose fewer. No file was stored.")

    def _finish(self) -> None:
        self._keep_file()
        super()._finish()

    def _keep_file(self) -> None:
        if self.arriving is not None:
            self.arriving.suspend()
            self.files.append((self._part.file_name, self.arriving))
        if self.refused is not None and (self._part.file_name or self.refused.rule != "media.empty_body"):
            self.refusals.append((self._part.file_name, self.refused))  # a browser sends an empty one for no file
        self.arriving = self.refused = None


def parse_small_form(content_type: str, body: bytes) -> tuple[dict[str, str], bytes]:
    """Return the text fields and the file of a small body that was read whole.

    The file is empty if there is none. Raises as `parse_boundary`.
    """
    fields: dict[str, str] = {}
    files: list[bytes] = []

    def keep_field(found: Field) -> None:
        fields[(found.field_name or b"").decode("utf-8", "replace")] = (found.value or b"").decode("utf-8", "replace")

    def keep_file(found: File) -> None:
        found.file_object.seek(0)
        files.append(found.file_object.read() if found.field_name == FILE_FIELD.encode() else b"")
        found.close()

    parser = FormParser("multipart/form-data", keep_field, keep_file, boundary=parse_boundary(content_type))
    try:
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise rule_error("media.parse_failed") from error
    return fields, max(files, key=len, default=b"")


def is_cut_in_field(content_type: str, start: bytes) -> bool:
    """Return whether a body was cut in a text field, not in a file. `start`: its first bytes."""
    last = start.rpartition(b"--" + parse_boundary(content_type))[2]
    return not last.startswith(b"--") and b"filename=" not in last.partition(b"\r\n\r\n")[0]
