export SOCIALPUB_URL=BASE_URL
export SOCIALPUB_KEY="paste your key here"
