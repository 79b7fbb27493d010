"""webhooks.py: receive events on port 3000, and act on each once."""

import http.server
import os

from socialpub_client import SignatureError
from socialpub_client.webhooks import verify

SECRET = os.environ["SOCIALPUB_WEBHOOK_SECRET"]
seen = set()  # keep it in your database: an event may be delivered more than once, and after a restart


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = verify(self.headers, body, SECRET)
        except SignatureError:
            self.send_response(401)
        else:
            self.send_response(204)
            if event.id not in seen:
                seen.add(event.id)
                print(event.type, event.data["id"], flush=True)
        self.end_headers()


http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", "3000"))), Receiver).serve_forever()
