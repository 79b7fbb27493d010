// retries.mts: publish once, however often this program runs.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const { SOCIALPUB_URL: baseUrl, SOCIALPUB_KEY: key, SOCIALPUB_ACCOUNT: accountId } = process.env as Record<string, string>;
const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
const headers = { "Idempotency-Key": "opening-2026-03-29" };
const body = { targets: [{ accountId }], text: "We open on Monday.", externalId: "opening/2026-03-29" };

for (let tries = 1; ; tries += 1) {
  const answer = await api.POST("/v1/posts", { body, params: { header: headers } }).catch(() => null);
  const status = answer?.response.status ?? 0; // 0: no answer
  if (answer?.data) {
    for (const result of answer.data.results) console.log(result.platform, result.status, result.url);
    break;
  }
  if (tries === 5 || ![0, 408, 429, 500, 502, 503, 504].includes(status)) {
    throw new Error(answer?.error?.error.message ?? "No answer. Run this program again.");
  }
  const seconds = Number(answer?.response.headers.get("Retry-After") ?? 2 ** tries * Math.random());
  await new Promise((done) => setTimeout(done, seconds * 1000));
}
