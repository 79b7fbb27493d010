"""The log of acts is read by person and by what was done, newest first."""


def up(migrator, db):
    db.execute_sql('CREATE INDEX "audit_organization_at" ON "audit" ("organization", "at")')
    db.execute_sql('CREATE INDEX "audit_user" ON "audit" ("organization", "user", "at") WHERE user IS NOT NULL')
    db.execute_sql('CREATE INDEX "audit_organization_verb_at" ON "audit" ("organization", "verb", "at")')
