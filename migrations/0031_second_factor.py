"""The second factor of signing in: an app's sealed secret, the step of the last code, and recovery codes."""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "user" ADD COLUMN totp TEXT')
    db.execute_sql('ALTER TABLE "user" ADD COLUMN totp_step INTEGER NOT NULL DEFAULT 0')
    db.execute_sql(
        'CREATE TABLE "recovery_code" ("id" TEXT NOT NULL PRIMARY KEY, '
        '"user" TEXT NOT NULL REFERENCES "user" ("id"))'
    )
    db.execute_sql('CREATE INDEX "recovery_code_user" ON "recovery_code" ("user")')
