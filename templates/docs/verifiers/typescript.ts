import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * Whether a delivery is signed with this secret. It is JavaScript as well.
 * @param {Buffer} body as it came, before anything has parsed it
 * @param {Record<string, string | undefined>} headers by their names in small letters
 * @param {string} secret
 */
export function isGenuine(body, headers, secret) {
  const expected = Buffer.from("sha256=" + createHmac("sha256", secret).update(body).digest("hex"));
  // The second one is there for a day after the secret was exchanged.
  const sent = [headers["x-service-signature"], headers["x-service-signature-previous"]];
  return sent.some((one) => {
    const given = Buffer.from(one ?? "");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
