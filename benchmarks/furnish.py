"""Administration in the code of any checkout: `python furnish.py < JSON`, run in that checkout.

It reads a list of `[arguments, secret]` and prints a list of what each command answered. One process for all of them:
a start costs more than a command.
"""

import contextlib
import io
import json
import sys

from socialpub.commands import cli


def _answer(arguments: list[str], secret: str) -> object:
    said, sys.stdin = io.StringIO(), io.StringIO(secret)
    with contextlib.redirect_stdout(said):
        code = cli.main([*arguments, "--json"])
    if code:
        raise SystemExit(f"socialpub {' '.join(arguments)}: {said.getvalue()}")
    return json.loads(said.getvalue())


if __name__ == "__main__":
    print(json.dumps([_answer(*asked) for asked in json.load(sys.stdin)]))
