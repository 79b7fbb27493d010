# The assistant: its key has the scope posts:plan, and can publish nothing.
PLAN=$(curl -sS "$SOCIALPUB_URL/v1/posts/validate" \
  -H "Authorization: Bearer $SOCIALPUB_PLANNING_KEY" \
  -d @- <<JSON | python3 -c 'import json, sys; print(json.load(sys.stdin)["plan"]["token"])'
{
  "targets": [{"accountId": "$SOCIALPUB_ACCOUNT"}],
  "text": "Written by an assistant, published by a person.",
  "plan": true
}
JSON
)
# A person, who has read it: within 15 minutes, with a key of their own.
curl -sS "$SOCIALPUB_URL/v1/posts" -H "Authorization: Bearer $SOCIALPUB_KEY" -d "{\"plan\": \"$PLAN\"}"
