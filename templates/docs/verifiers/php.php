<?php

// Whether a delivery is signed with this secret. $body: file_get_contents("php://input"); $server: $_SERVER.
function is_genuine(string $body, array $server, string $secret): bool
{
    $expected = "sha256=" . hash_hmac("sha256", $body, $secret);
    // The second one is there for a day after the secret was exchanged.
    foreach (["HTTP_X_SERVICE_SIGNATURE", "HTTP_X_SERVICE_SIGNATURE_PREVIOUS"] as $name) {
        if (hash_equals($expected, $server[$name] ?? "")) {
            return true;
        }
    }
    return false;
}
