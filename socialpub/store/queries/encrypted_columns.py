"""Every column with sealed values: what `keys rotate` seals anew, and what is lost with a master key.

A value is `v1.<key id>.<nonce>.<ciphertext>`; the table, `bound` and the row's id are sealed in with it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EncryptedColumn:
    """One column. `lasting`: a start without its key is refused; the others are over within a day."""

    table: str
    column: str
    bound: str
    lasting: bool = True
    among: str = ""  # only these rows, which an index holds

    @property
    def _where(self) -> str:
        return self.among or f"{self.column} <> ''"

    @property
    def keys(self) -> str:
        """The ids of the keys that are needed."""
        return f"SELECT DISTINCT substr({self.column}, 4, 8) FROM {self.table} WHERE {self._where}"

    @property
    def count(self) -> str:
        return f"SELECT count(*) FROM {self.table} WHERE {self._where}"

    @property
    def part(self) -> str:
        """Some rows after an id, in their order: id and value."""
        return f"SELECT id, {self.column} FROM {self.table} WHERE {self._where} AND id > ? ORDER BY id LIMIT ?"

    @property
    def anew(self) -> str:
        """The value in place of the one that was read."""
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
