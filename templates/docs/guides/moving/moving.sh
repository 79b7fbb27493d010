# queue.csv has the columns id, at and text. Run it as often as you like: an id that is there already stays as it is.
python3 -c '
import csv, json, os, sys
for row in csv.DictReader(open("queue.csv", newline="")):
    target = {"accountId": os.environ["SOCIALPUB_ACCOUNT"]}
    print(json.dumps({"targets": [target], "text": row["text"], "scheduledAt": row["at"], "externalId": "old/" + row["id"]}))
' | while IFS= read -r post; do
  curl -sS -w '\n' "$SOCIALPUB_URL/v1/posts" -H "Authorization: Bearer $SOCIALPUB_KEY" -d "$post"
done
