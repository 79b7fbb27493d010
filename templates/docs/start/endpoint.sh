curl -sS "$SOCIALPUB_URL/v1/webhook-endpoints" \
  -H "Authorization: Bearer $SOCIALPUB_KEY" \
  -H "Idempotency-Key: hook-$(date +%s)" \
  -d @- <<JSON
{
  "url": "https://example.com/the/address/of/your/receiver",
  "events": ["post.published", "post.failed", "post.rejected"]
}
JSON
