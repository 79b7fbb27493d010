"""moving.py: schedule the rows of queue.csv (id, at, text). Running it again adds nothing."""

import csv
import os

from socialpub_client import PreflightFailed, Socialpub, ValidationFailed

with Socialpub() as sp, open("queue.csv", newline="") as file:
    for row in csv.DictReader(file):
        try:
            batch = sp.posts.publish(
                row["text"], to=os.environ["SOCIALPUB_ACCOUNT"], at=row["at"], external_id=f"old/{row['id']}"
            )
        except (PreflightFailed, ValidationFailed) as refusal:  # of its content, or of its time
            print(row["id"], "cannot come over:", refusal.message)
        else:
            print(row["id"], batch.status)
