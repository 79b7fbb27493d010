"""How many deliveries an endpoint has accepted only under its previous secret, since the secret was exchanged."""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "webhook_endpoint" ADD COLUMN "previous_accepted" INTEGER NOT NULL DEFAULT 0')
