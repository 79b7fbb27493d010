# Ten minutes from now: the first form of date is for Linux, the second for macOS.
AT=$(date -u -d "+10 minutes" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -v+10M +%Y-%m-%dT%H:%M:%SZ)
curl -sS "$SOCIALPUB_URL/v1/posts" \
  -H "Authorization: Bearer $SOCIALPUB_KEY" \
  -H "Idempotency-Key: later-$(date +%s)" \
  -d @- <<JSON
{
  "targets": [{"accountId": "$SOCIALPUB_ACCOUNT"}],
  "text": "Hello again, at $AT",
  "scheduledAt": "$AT"
}
JSON
