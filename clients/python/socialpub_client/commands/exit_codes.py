"""Exit codes of the program `socialpub`, the same for every command."""

from __future__ import annotations

DONE, FAILED, USAGE, REFUSED, AUTHENTICATION, PARTLY, UNKNOWN, UNREACHED = range(8)
INTERRUPTED = 130

MEANINGS = {
    DONE: "done: all published or queued, or what was asked for was shown",
    FAILED: "failed: no target went out",
    USAGE: "usage: the command line is wrong",
    REFUSED: "refused by the rules: nothing was sent",
    AUTHENTICATION: "authentication: an unknown or expired key, or a scope that it lacks",
    PARTLY: "partly: some targets went out, some did not",
    UNKNOWN: "outcome unknown: look before you act; the key to repeat the request with is printed",
    UNREACHED: "server not reached, or busy: nothing was accepted, run it again",
    INTERRUPTED: "interrupted; while a write was under way it is 6",
}
