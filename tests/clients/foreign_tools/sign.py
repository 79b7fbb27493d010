"""Sign with `standardwebhooks` and `svix`: one line of JSON, the signatures by package."""

import json
import os
from datetime import UTC, datetime

import standardwebhooks
from svix.webhooks import Webhook

id_, at, body, secret = (os.environ[name] for name in ("ID", "AT", "BODY", "SECRET"))
moment = datetime.fromtimestamp(int(at), UTC)
signers = {"standardwebhooks": standardwebhooks.Webhook(secret), "svix": Webhook(secret)}
print(json.dumps({name: signer.sign(id_, moment, body) for name, signer in signers.items()}))
