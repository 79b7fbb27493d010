"""The columns with encrypted values, which `keys rotate` re-encrypts.

They are lost with their master key. A value is `v1.<key id>.<nonce>.<ciphertext>`; the table, `bound` and the row's id
are its associated data.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EncryptedColumn:
    """An encrypted column.

    `lasting`: a start without its key is refused. Other values expire within a day.
    """

    table: str
    column: str
    bound: str
    lasting: bool = True
    among: str = ""  # a condition that an index has

    @property
    def _where(self) -> str:
        return self.among or f"{self.column} <> ''"

    @property
    def keys(self) -> str:
        """A SELECT of the ids of the master keys in use."""
        return f"SELECT DISTINCT substr({self.column}, 4, 8) FROM {self.table} WHERE {self._where}"

    @property
    def count(self) -> str:
        return f"SELECT count(*) FROM {self.table} WHERE {self._where}"

    @property
    def part(self) -> str:
        """A SELECT of some rows after an id: id and value."""
        return f"SELECT id, {self.column} FROM {self.table} WHERE {self._where} AND id > ? ORDER BY id LIMIT ?"

    @property
    def update(self) -> str:
        """An UPDATE that replaces a value unless it has changed."""
        return f"UPDATE {self.table} SET {self.column} = ? WHERE id = ? AND {self.column} = ?"


ENCRYPTED_COLUMNS = (
    EncryptedColumn("instance", "client_key", "client_key"),
    EncryptedColumn("instance", "signing_key", "signing_key"),
    EncryptedColumn("account", "secret", "secret"),
    EncryptedColumn("platform_app", "secret", "secret"),
    EncryptedColumn("user", "totp", "totp"),
    EncryptedColumn("webhook_endpoint", "secret", "secret"),
    EncryptedColumn("webhook_endpoint", "previous_secret", "secret"),
    EncryptedColumn("notification_channel", "secret", "secret"),
    EncryptedColumn("connect_attempt", "secret", "secret", lasting=False),
    EncryptedColumn("connect_attempt", "choices", "choices", lasting=False),
    EncryptedColumn("idempotency", "body", "body", lasting=False, among="sealed = 1"),
)

FIND_MASTER_KEY_ID = "SELECT key_id FROM instance"
HAS_COLUMN = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?"
