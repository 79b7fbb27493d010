curl -sS "$SOCIALPUB_URL/v1/accounts" -H "Authorization: Bearer $SOCIALPUB_KEY"
