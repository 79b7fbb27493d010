"""`python -m socialpub` is the same program as the `socialpub` command."""

from socialpub.commands.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
