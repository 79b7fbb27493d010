"""Administration commands by the code of any checkout: `python administration.py < JSON`.

That checkout is first on the path. The script reads a list of `[arguments, standard input]` and prints a list of what
the commands answered. They share a process, a parser and an open database: for each of a thousand accounts a start
would cost more than the command.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

from socialpub.commands import admin, serve


def main() -> None:
    asked: list[tuple[list[str], str]] = json.load(sys.stdin)
    parse, answers = _parser(), []
    load_settings, close = (
        _named(serve, "load_settings", "settings_of"),
        _named(serve, "close_context", "close_service"),
    )
    service = serve.start_service(load_settings(parse(asked[0][0])))
    for name in ("open_database", "opened"):
        setattr(admin, name, lambda _: contextlib.nullcontext(service))
    try:
        for arguments, given in asked:
            sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
            options = parse(arguments)
            with contextlib.redirect_stdout(sys.stderr):
                answers.append(options.run(options))
    finally:
        close(service)
    print(json.dumps(answers))


def _named(module: Any, *names: str) -> Any:
    """Return the attribute that has one of these names: checkouts of before November 26 have others."""
    return next(getattr(module, name) for name in names if hasattr(module, name))


def _parser() -> Callable[[list[str]], Any]:
    """What reads a line: of checkouts from before click as well."""
    for module, parse in (("command_table", "parse"), ("table", "parsed")):
        with contextlib.suppress(ImportError):
            parser: Callable[[list[str]], Any] = getattr(importlib.import_module(f"socialpub.commands.{module}"), parse)
            return parser
    from socialpub.commands import cli

    return cli.parser().parse_args  # type: ignore[attr-defined,no-any-return]


if __name__ == "__main__":
    main()
