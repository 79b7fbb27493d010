# The platform refuses the next publication.
curl -sS "$SOCIALPUB_LAB/lab/faults" > /dev/null \
  -d '[{"fault": "status:400", "operation": "com.atproto.repo.putRecord", "times": 1}]'
curl -sS "$SOCIALPUB_URL/v1/posts" -H "Authorization: Bearer $SOCIALPUB_KEY" -d @- <<JSON
{
  "targets": [{"accountId": "$SOCIALPUB_ACCOUNT"}],
  "text": "Is anybody there?"
}
JSON
# What is really there: the simulator's ledger of publications.
curl -sS "$SOCIALPUB_LAB/lab/ledger?platform=bluesky"
