export SOCIALPUB_ACCOUNT="paste the id of an account here"
