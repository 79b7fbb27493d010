"""moving.py: schedule the rows of queue.csv (id, at, text). Running it again adds nothing."""

import csv
import os

from socialpub_client import PreflightFailed, Socialpub

with Socialpub() as sp, open("queue.csv", newline="") as file:
    for row in csv.DictReader(file):
        try:
            batch = sp.posts.publish(
                row["text"], to=os.environ["SOCIALPUB_ACCOUNT"], at=row["at"], external_id=f"old/{row['id']}"
            )
        except PreflightFailed as refusal:
            print(row["id"], "cannot come over:", *(failure.message for failure in refusal.failures))
        else:
            print(row["id"], batch.status)
