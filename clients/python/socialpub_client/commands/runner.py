"""Run a command over the API: result or error, output, exit code.

The result goes to standard output, all else to standard error. What was done decides the exit code, not whether the
output is read: a post that went out is not reported as failed because a pipe was closed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from socialpub_client import errors
from socialpub_client.client import Socialpub
from socialpub_client.commands import exit_codes
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.exit_codes import AUTHENTICATION, DONE, FAILED, REFUSED, UNKNOWN, UNREACHED
from socialpub_client.error_kinds import classify
from socialpub_client.messages import Transport
from socialpub_client.terminal_text import escape_controls, escape_surrogates

Json = dict[str, Any]
WIDTH_MAX = 30  # of the column of names; longer ones stand out of it
TOLD_SECONDS = 2.0  # a shorter wait is not worth a line


@dataclass
class Output:
    """Result of a command: a JSON value, or rows that are printed as they come.

    `lines`: what people read instead. `code`: the exit code. `wrote`: whether the command changes something, so that
    lost output neither stops it nor makes it fail. `verbatim`: the lines are JSON or a shell command, whose control
    characters stay as they are.
    """

    value: Any = None
    rows: Iterable[Any] | None = None
    lines: Callable[[Any], list[str]] | None = None
    code: int = DONE
    wrote: bool = False
    notes: list[str] = field(default_factory=list[str])
    verbatim: bool = False


def run(command: Callable[[ApiOptions], Output | int], options: ApiOptions) -> int:
    """Run one command and return its exit code."""
    with contextlib.ExitStack() as stack:
        options.opened = stack  # what the command opens stays open until its rows are printed
        return _run(command, options)


def _run(command: Callable[[ApiOptions], Output | int], options: ApiOptions) -> int:
    try:
        output = command(options)
        return output if isinstance(output, int) else _show(output, options)
    except (errors.SocialpubError, OSError) as error:
        return report_error(error, options)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED


def connect(options: ApiOptions, transport: Transport | None = None) -> Socialpub:
    """Return the client of the server that the options name; it is closed at the end.

    Before it waits for a further try, it says so on standard error.
    """

    def tell_retry(error: errors.SocialpubError, seconds: float) -> None:
        if seconds >= TOLD_SECONDS:
            tell(options, f"{error.message} Trying again in {math.ceil(seconds)} s.")

    client: Socialpub = options.opened.enter_context(
        Socialpub(options.url, options.key, server=options.server, on_retry=tell_retry, transport=transport)
    )
    return client


# --- Output --------------------------------------------------------------------------------------------------------


def _show(output: Output, options: ApiOptions) -> int:
    for note in output.notes:
        tell(options, note)
    for line in _lines(output, options):
        try:
            print(escape_surrogates(line), flush=True)
        except OSError as error:
            drop_output(error)
            if not output.wrote:
                return output.code if error.errno == errno.EPIPE else FAILED
        except KeyboardInterrupt:
            if output.rows is None and output.wrote:  # all is done, and only the reader is slow
                return output.code
            raise
    return output.code


def _lines(output: Output, options: ApiOptions) -> Iterator[str]:
    if output.rows is not None:
        for row in output.rows:
            if options.json or output.lines is None:
                yield json.dumps(row, ensure_ascii=False)
            else:
                yield from _format_lines(output, output.lines(row))
    elif options.json:
        yield json.dumps(output.value, ensure_ascii=False)
    elif output.value is not None:
        yield from _format_lines(output, output.lines(output.value) if output.lines else format_fields(output.value))


def _format_lines(output: Output, lines: Iterable[str]) -> Iterable[str]:
    return lines if output.verbatim else map(escape_controls, lines)


class OutputLostError(Exception):
    """Standard output cannot be written; `error` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def printing() -> Generator[None]:
    """Raise OutputLostError where the block cannot write to standard output."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        raise OutputLostError(error) from error


def drop_output(error: OSError) -> None:
    """Point standard output at nothing; say why, unless its reader has gone."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # Python would complain that it cannot be flushed
    os.close(nothing)
    if error.errno != errno.EPIPE:
        tell_error(f"socialpub: the output could not be written: {error.strerror}")


def tell(options: ApiOptions, text: str) -> None:
    """Print a line on standard error, unless `--quiet`."""
    if not options.quiet:
        tell_error(text)


def tell_error(text: str) -> None:
    """Print a text of one or more lines on standard error, its control characters escaped."""
    if sys.stderr is None:  # closed; print would take standard output instead
        return
    try:
        print("\n".join(map(escape_controls, text.split("\n"))), file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = None  # it was closed: the rest of the command goes on


def format_fields(value: Json) -> list[str]:
    """Format an object as lines of name and value; inner names are as in `error.message`."""
    fields = [*_flatten("", value)]
    width = max((len(name) for name, _ in fields if len(name) <= WIDTH_MAX), default=0)
    return [f"{name:<{width}}  {format_value(each)}" for name, each in fields]


def _flatten(before: str, value: Json) -> Iterator[tuple[str, Any]]:
    """Yield the values that are neither objects nor lists of them, with their names."""
    for name, each in value.items():
        entries = cast(Sequence[Any], each) if isinstance(each, list) else ()
        if any(isinstance(entry, dict | list) for entry in entries):
            each = {str(number): entry for number, entry in enumerate(entries, 1)}
        if isinstance(each, dict) and each:
            yield from _flatten(f"{before}{name}.", cast(Json, each))
        else:
            yield f"{before}{name}", each


def format_value(value: Any) -> str:
    """Format a value for people; a list as its values."""
    if value is None or value == [] or value == {}:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(format_value, cast(Sequence[Any], value)))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | dict) else str(value)


def is_terminal(stream: Any) -> bool:
    """Return whether this stream is a terminal; False where it is closed."""
    return stream is not None and bool(stream.isatty())


def check_can_ask(options: ApiOptions, instead: str) -> None:
    """Raise UsageError where no one could read a question or answer it; `instead`: what to do."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        options.usage(f"{instead}: there is no terminal to ask at")


def confirm(options: ApiOptions, question: str) -> None:
    """Ask before something is destroyed. Without a terminal: a usage error, unless `--yes`."""
    if options.yes:
        return
    check_can_ask(options, "give --yes")
    import click

    click.confirm(question, abort=True, err=True)


def read_stdin(options: ApiOptions) -> str:
    """Read standard input to its end: UTF-8 in every locale, as files are."""
    if sys.stdin is None:
        options.usage("standard input is closed")
    try:
        return decode_text(sys.stdin.buffer.read())
    except UnicodeError:
        options.usage("standard input is not UTF-8")


def decode_text(content: bytes) -> str:
    """Decode UTF-8, without the byte order mark of some programs. Raises UnicodeError."""
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


@contextlib.contextmanager
def writing(key: str) -> Generator[None]:
    """Turn an interruption of a write into OutcomeUnknown with its idempotency key.

    By Ctrl-C or SIGTERM.
    """
    try:
        with _interrupted_by_sigterm():
            yield
    except KeyboardInterrupt:
        raise errors.OutcomeUnknown(
            "Interrupted while a write was under way; it may have been accepted.", key
        ) from None


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Generator[None]:
    """Raise KeyboardInterrupt on SIGTERM, which would end the process without a word."""
    is_main = threading.current_thread() is threading.main_thread()  # others cannot set handlers
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def connect_to_write(options: ApiOptions) -> Generator[tuple[Socialpub, str]]:
    """Yield the client and the idempotency key of a write, which an interruption names."""
    key, client = new_key(options), connect(options)
    with writing(key):
        yield client, key


def new_key(options: ApiOptions) -> str:
    """Return the idempotency key of a write: the one that was given, or a new one."""
    return str(getattr(options, "idempotency_key", None) or uuid.uuid4())


# --- Errors --------------------------------------------------------------------------------------------------------


def report_error(error: errors.SocialpubError | OSError, options: ApiOptions) -> int:
    """Print an error, as the API's envelope with `--json`; return its exit code."""
    if isinstance(error, OSError):
        about = f"{os.fsdecode(error.filename) if error.filename else 'the file'}: {error.strerror or error}"
        error = errors.SocialpubError(about, code="file_error")
    if isinstance(error, errors.OutcomeUnknown):
        with_key = f" with --idempotency-key {error.idempotency_key}" if hasattr(options, "idempotency_key") else ""
        error.remediation = f"Repeat the same command{with_key}: it is accepted at most once."
    if isinstance(error, errors.Unauthenticated):
        error.remediation = "Give a valid one: --key, SOCIALPUB_KEY, or `socialpub login`."
    if options.json:
        print_error(envelope(error))
    tell_error(f"socialpub: {error.message}")
    if isinstance(error, errors.PreflightFailed):  # its message has the first failure
        for failure in error.failures[1:]:
            tell_error(f"  Target {failure.target_index}: {failure.message} {failure.remediation or ''}".rstrip())
    for text in (
        error.remediation if error.remediation not in error.message else None,
        error.rule and f"rule: {error.rule}",
        error.request_id and f"id: {error.request_id}",
    ):
        if text:
            tell_error(f"  {text}")
    return exit_code(error)


def print_error(body: Json) -> None:
    """Print the envelope of an error on standard output."""
    try:
        print(escape_surrogates(json.dumps(body, ensure_ascii=False)), flush=True)
    except OSError as lost:
        drop_output(lost)


def envelope(error: errors.SocialpubError) -> Json:
    """Return an error as the API answers it, also one of no answer."""
    if error.envelope:
        return dict(error.envelope)
    body: Json = {"code": error.code, "message": error.message}
    if error.remediation:
        body["remediation"] = error.remediation
    if isinstance(error, errors.OutcomeUnknown):
        body["idempotencyKey"] = error.idempotency_key
    return {"error": body}


def exit_code(error: errors.SocialpubError) -> int:
    """Return the exit code of an error."""
    match error:
        case errors.OutcomeUnknown() | errors.WaitTimedOut():
            return UNKNOWN
        case errors.InvalidArgument() | errors.ConfigurationError():
            return exit_codes.USAGE
        case errors.Unauthenticated() | errors.Unauthorized() | errors.PlatformAuthFailed():
            return AUTHENTICATION
        case _ if classify(error).passes:
            return UNREACHED
        case _:
            return REFUSED if error.status is not None and 400 <= error.status < 500 else FAILED
