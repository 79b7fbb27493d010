"""Run a command: log line, result or error, exit code."""

from __future__ import annotations

import errno
import json
import logging
import os
from typing import Any

from socialpub.base.config import ConfigError
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError
from socialpub.base.observability import redaction
from socialpub.base.s3 import S3BucketError
from socialpub.base.system import os_errors
from socialpub.commands import audit_line, serve
from socialpub.commands.click_types import CommandOptions
from socialpub.domain.backups.archive import BackupError, BackupExistsError
from socialpub.domain.schemas.errors import build_error_body
from socialpub.store.engine.locks import StartError
from socialpub_client.commands.exit_codes import AUTHENTICATION, FAILED, REFUSED
from socialpub_client.commands.runner import (
    OutputLostError,
    drop_output,
    format_fields,
    format_value,
    printing,
    tell_error,
)
from socialpub_client.terminal_text import escape_controls, escape_surrogates

OF_REQUESTS = {ERRORS[code].remediation for code in ("validation_failed", "not_found")}
"""Remediations that speak of a request's fields and key, which a command has not."""


def run(options: CommandOptions) -> int:
    """Run one command and return its exit code."""
    if logging.lastResort:  # formats messages of commands before, or without, logging setup
        logging.lastResort.setFormatter(redaction.TextLogFormatter("%(message)s"))
    try:
        result = options.run(options)
        if options.act and result.get(options.done):
            audit_line.write(options.act, result, options.settings)
        if result is not None:
            _show(options, result)
    except (ApiError, BackupError, S3BucketError, ConfigError, StartError, serve.CommandRefusedError) as error:
        return _report_error(options, error)
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return _report_error(options, StartError(f"{where}{os_errors.describe(error)}"))
    except OutputLostError as lost:
        drop_output(lost.error)
        return int(options.exit_code) if options.act or lost.error.errno == errno.EPIPE else FAILED
    return int(options.exit_code)


def _report_error(options: CommandOptions, error: Exception) -> int:
    if isinstance(error, ApiError) and error.remediation in OF_REQUESTS:
        error.remediation = ""
    if options.json:
        body = dict(build_error_body(error, "")) if isinstance(error, ApiError) else {"message": str(error)}
        body.pop("docUrl", None), body.pop("ruleUrl", None)
        try:
            with printing():
                print(escape_surrogates(json.dumps({"error": body}, ensure_ascii=False)))
        except OutputLostError as lost:
            drop_output(lost.error)
    tell_error(f"socialpub: {error}")
    if isinstance(error, ApiError) and error.remediation:
        tell_error(f"  {escape_controls(error.remediation)}")
    return _exit_code(error)


def _exit_code(error: Exception) -> int:
    if isinstance(error, serve.CommandRefusedError | BackupExistsError):
        return REFUSED
    if isinstance(error, ApiError):
        if error.code in ("platform_auth_failed", "unauthenticated"):
            return AUTHENTICATION
        return REFUSED if error.status in (400, 403, 404, 409) else FAILED
    return FAILED


def _show(options: CommandOptions, result: Any) -> None:
    lines = _format_lines(result) if options.sentences is None else options.sentences
    with printing():
        for line in [json.dumps(result, ensure_ascii=False)] if options.json else map(escape_controls, lines):
            print(escape_surrogates(line))


def _format_lines(result: Any) -> list[str]:
    if isinstance(result, list):
        return ["  ".join(map(format_value, row.values())) for row in result] or ["none"]
    return format_fields(result)
