"""Addon of mitmproxy: the first two tries of each publish meet a fault each.

Which ones follows from how many publishes there were before. Each is a line of the file CUTS.
"""

import os
from collections import Counter

from mitmproxy import http

FAULTS = ("reset before", "reset during", "reset after", "429", "503", "502 after")
TRIES = 2
tries: Counter[str] = Counter()
order: dict[str, int] = {}


def request(flow: http.HTTPFlow) -> None:
    """Decide what befalls a request; the faults before the server happen here."""
    if flow.request.method != "POST" or flow.request.path != "/v1/posts":
        return
    key = flow.request.headers["Idempotency-Key"]
    number = order.setdefault(key, len(order))
    tries[key] += 1
    if tries[key] > TRIES:
        return
    step = 0 if tries[key] == 1 else 1 + number // len(FAULTS)  # in time each fault follows each
    fault = FAULTS[(number + step) % len(FAULTS)]
    with open(os.environ["CUTS"], "a", encoding="utf-8") as file:
        print(fault, file=file)
    flow.metadata["fault"] = fault
    if fault == "reset before":
        flow.kill()
    elif fault in ("429", "503"):
        headers = {"Content-Type": "text/plain", "Retry-After": "0"}
        flow.response = http.Response.make(int(fault), b"Later.", headers)


def response(flow: http.HTTPFlow) -> None:
    """The faults after the server has answered."""
    fault = flow.metadata.get("fault")
    if fault == "reset after":
        flow.kill()
    elif fault == "502 after":
        flow.response = http.Response.make(502, b"<h1>502 Bad Gateway</h1>", {"Content-Type": "text/html"})
    elif fault == "reset during":
        whole = flow.response.raw_content
        flow.response.raw_content = whole[: len(whole) // 2]
        flow.response.headers["Content-Length"] = str(len(whole))  # so the end of the connection is too early
        flow.response.headers["Connection"] = "close"
