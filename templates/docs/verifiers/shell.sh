# is_genuine BODY SECRET SIGNATURE...: whether the delivery in the file BODY, as it came, is signed with this secret.
# SIGNATURE: the header X-Service-Signature and, for a day after the secret was exchanged, X-Service-Signature-Previous.
is_genuine() {
    body=$1 secret=$2
    shift 2
    expected="sha256=$(openssl dgst -sha256 -hmac "$secret" <"$body" | sed 's/^.*= *//')"
    for sent in "$@"; do
        if [ "$(printf %s "$sent" | openssl dgst -sha256)" = "$(printf %s "$expected" | openssl dgst -sha256)" ]; then
            return 0
        fi
    done
    return 1
}
