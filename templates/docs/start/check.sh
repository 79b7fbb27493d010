curl -sS "$SOCIALPUB_URL/v1/posts/validate" \
  -H "Authorization: Bearer $SOCIALPUB_KEY" \
  -d @- <<JSON
{
  "targets": [{"accountId": "$SOCIALPUB_ACCOUNT"}],
  "text": "Hello from socialpub"
}
JSON
