"""Who did what, on what, when and from where: a row for each act of a person, a key or the operator."""

from peewee import *


class Audit(Model):
    id = TextField(primary_key=True)
    at = BigIntegerField(index=True)
    organization = TextField(null=True)
    key = TextField(null=True)
    user = TextField(null=True)
    verb = TextField()
    subject = TextField(null=True)
    address = TextField()
    request_id = TextField()

    class Meta:
        table_name = "audit"
        legacy_table_names = False


def up(migrator, db):
    with db.bind_ctx([Audit]):
        db.create_tables([Audit], safe=False)
