"""Connecting accounts: attempts that are under way, and when tokens were renewed, end, and may have been renewed."""

from peewee import *


class Base(Model):
    class Meta:
        legacy_table_names = False


def refers_to(table, **options):
    """A column that holds another row's id; only the other table's name and key are needed here."""

    class Other(Base):
        id = TextField(primary_key=True)

        class Meta:
            table_name = table

    return ForeignKeyField(Other, column_name=table, lazy_load=False, **({"index": False} | options))


class ConnectAttempt(Base):
    id = TextField(primary_key=True)
    session = TextField()
    organization = refers_to("organization")
    profile = refers_to("profile")
    platform = TextField()
    secret = TextField()
    used_at = BigIntegerField(null=True)
    choices = TextField(null=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)

    class Meta:
        table_name = "connect_attempt"


def up(migrator, db):
    migrator.migrate(
        migrator.add_column("account", "renewed_at", BigIntegerField(null=True)),
        migrator.add_column("account", "ends_at", BigIntegerField(null=True)),
        migrator.add_column("account", "renewal_at", BigIntegerField(null=True)),
    )
    with db.bind_ctx([ConnectAttempt]):
        db.create_tables([ConnectAttempt], safe=False)
