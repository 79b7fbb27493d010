"""Why an account's authorization is over, beside the account itself."""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "account" ADD COLUMN "revoked_reason" TEXT')
