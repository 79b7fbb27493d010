curl -sS "$SOCIALPUB_URL/v1/posts" \
  -H "Authorization: Bearer $SOCIALPUB_KEY" \
  -H "Idempotency-Key: hello-$(date +%s)" \
  -d @- <<JSON
{
  "targets": [{"accountId": "$SOCIALPUB_ACCOUNT"}],
  "text": "Hello from socialpub"
}
JSON
