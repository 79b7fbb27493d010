"""Queries for rows of the audit log."""

from __future__ import annotations

from typing import Any

from socialpub.store.schema.models import AuditEntry
from tests.support.app_server import AppServer


def audit_rows(server: AppServer) -> list[dict[str, Any]]:
    return sorted(server.rows(AuditEntry), key=lambda row: int(row["number"]))


def newest_audit_row(server: AppServer) -> dict[str, Any]:
    return audit_rows(server)[-1]
