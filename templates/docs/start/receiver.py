"""receiver.py: receive events on port 3000 and check their signatures."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import time

SECRET = base64.b64decode(os.environ["SOCIALPUB_WEBHOOK_SECRET"].removeprefix("whsec_"))
OLDEST = 300  # seconds
seen = set()  # ids of events: an event may be delivered more than once


def is_genuine(headers, body):
    sent = headers.get("webhook-timestamp", "")
    signed = f"{headers.get('webhook-id')}.{sent}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    signatures = headers.get("webhook-signature", "").split(" ")
    is_recent = sent.isdigit() and abs(time.time() - int(sent)) < OLDEST
    return is_recent and any(hmac.compare_digest(expected.encode(), each.encode()) for each in signatures)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        genuine = is_genuine(self.headers, body)
        self.send_response(204 if genuine else 401)
        self.end_headers()
        if genuine and self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            event = json.loads(body)
            print(event["type"], json.dumps(event["data"]), flush=True)


http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", "3000"))), Receiver).serve_forever()
