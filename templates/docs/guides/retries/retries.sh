# One key for one publication: name it after what you publish, and keep it for every try.
curl -sS --retry 5 --retry-all-errors --retry-max-time 120 "$SOCIALPUB_URL/v1/posts" \
  -H "Authorization: Bearer $SOCIALPUB_KEY" \
  -H "Idempotency-Key: opening-2026-03-29" \
  -d @- <<JSON
{
  "targets": [{"accountId": "$SOCIALPUB_ACCOUNT"}],
  "text": "We open on Monday.",
  "externalId": "opening/2026-03-29"
}
JSON
