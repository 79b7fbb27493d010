"""Write the CycloneDX bill of materials of a release.

It has every package of the lock file, with the hashes of its files and what it needs.

    python .ci/sbom.py VERSION TIME LOCK > socialpub.cdx.json

TIME is in seconds since 1970. The same lock file, version and time give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SELF = "socialpub"
CLIENT = "socialpub-client"  # ours too, in every release: what needs it and what it needs is one with the rest
PACKAGE = re.compile(
    r"^([A-Za-z0-9][\w.-]*)==(\S+)(?: ; [^\n]*)? \\\n((?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)((?: {4}#.*\n)*)",
    re.M,
)


def document(version: str, seconds: int, lock: str) -> dict[str, Any]:
    """The document; ValueError for a lock file that is not wholly understood."""
    found = PACKAGE.findall(lock)
    if len(found) != len(re.findall(r"^[A-Za-z0-9].*==", lock, re.M)):
        raise ValueError("the lock file has packages without hashes, or in another form")
    refs = {name: _purl(name, number) for name, number, *_ in found} | {SELF: _purl(SELF, version)}
    needs: dict[str, set[str]] = {name: set() for name in refs}
    for name, _, _, why in found:
        for user in re.findall(r"^ +# (?:via |  )([\w.-]+)", why, re.M):
            needs[SELF if user == CLIENT else user].add(name)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": _serial(version, lock),
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": refs[SELF],
                "name": SELF,
                "version": version,
                "purl": refs[SELF],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [_component(name, number, hashes) for name, number, hashes, _ in found],
        "dependencies": [
            {"ref": refs[name], "dependsOn": sorted(refs[used] for used in used_by)}
            for name, used_by in sorted(needs.items())
        ],
    }


def _serial(version: str, lock: str) -> str:
    digest = hashlib.sha256(f"{version} {lock}".encode()).digest()
    return f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=4)}"


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"


def _component(name: str, version: str, hashes: str) -> dict[str, Any]:
    """A package may be installed from any of its files: each has a hash of its own."""
    files = [{"alg": "SHA-256", "content": digest} for digest in re.findall(r"sha256:([0-9a-f]{64})", hashes)]
    there = {"type": "distribution", "url": f"https://pypi.org/project/{name}/{version}/", "hashes": files}
    purl = _purl(name, version)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "externalReferences": [there],
    }


if __name__ == "__main__":
    made = document(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).read_text())
    print(json.dumps(made, indent=2))
