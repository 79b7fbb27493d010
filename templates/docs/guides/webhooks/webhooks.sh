# The receiver's address must be public and https. The answer shows the signing secret once.
curl -sS "$SOCIALPUB_URL/v1/webhook-endpoints" \
  -H "Authorization: Bearer $SOCIALPUB_KEY" \
  -H "Idempotency-Key: receiver-of-the-shop" \
  -d @- <<JSON
{
  "url": "$SOCIALPUB_RECEIVER",
  "events": ["post.published", "post.failed", "post.rejected"]
}
JSON
