"""retries.py: publish once, however often this program runs."""

import os
import sys

from socialpub_client import OutcomeUnknown, Socialpub

with Socialpub() as sp:  # SOCIALPUB_URL and SOCIALPUB_KEY
    try:
        batch = sp.posts.publish(
            "We open on Monday.", to=os.environ["SOCIALPUB_ACCOUNT"], external_id="opening/2026-03-29"
        )
    except OutcomeUnknown:
        sys.exit("No answer. Run this program again: the post is accepted at most once.")
    for result in batch.results:
        print(result.platform, result.status, result.url)
    batch.raise_for_failure()
