"""Twins whose answers were lost are looked for among the intents whose end nobody knows, and not among all."""


def up(migrator, db):
    db.execute_sql('CREATE INDEX "intent_unknown" ON "intent" ("account") WHERE outcome = \'unknown\'')
