package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// isGenuine tells whether a delivery is signed with this secret. body: as it came.
func isGenuine(body []byte, headers http.Header, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	expected := []byte("sha256=" + hex.EncodeToString(mac.Sum(nil)))
	// The second one is there for a day after the secret was exchanged.
	for _, name := range []string{"X-Service-Signature", "X-Service-Signature-Previous"} {
		if hmac.Equal(expected, []byte(headers.Get(name))) {
			return true
		}
	}
	return false
}
