"""Administration commands by the code of any checkout: `python administration.py < JSON`.

That checkout is first on the path. The script reads a list of `[arguments, standard input]` and prints a list of what
the commands answered. They share a process, a parser and an open database: for each of a thousand accounts a start
would cost more than the command.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

from socialpub.commands import admin, serve


def main() -> None:
    asked: list[tuple[list[str], str]] = json.load(sys.stdin)
    parse, answers = _parser(), []
    service = serve.start_service(serve.load_settings(parse(asked[0][0])))
    admin.open_database = lambda _: contextlib.nullcontext(service)  # type: ignore[assignment,return-value]
    try:
        for arguments, given in asked:
            sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
            options = parse(arguments)
            with contextlib.redirect_stdout(sys.stderr):
                answers.append(options.run(options))
    finally:
        serve.close_context(service)  # type: ignore[attr-defined]
    print(json.dumps(answers))


def _parser() -> Callable[[list[str]], Any]:
    """What reads a line: of checkouts from before click as well."""
    try:
        from socialpub.commands import command_table
    except ImportError:
        from socialpub.commands import cli

        return cli.parser().parse_args  # type: ignore[attr-defined,no-any-return]
    return command_table.parse


if __name__ == "__main__":
    main()
