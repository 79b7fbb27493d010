// moving.mts: schedule the rows of queue.json ({ id, at, text }). Running it again adds nothing.
import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const { SOCIALPUB_URL: baseUrl, SOCIALPUB_KEY: key, SOCIALPUB_ACCOUNT: accountId } = process.env as Record<string, string>;
const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
const rows: { id: string; at: string; text: string }[] = JSON.parse(readFileSync("queue.json", "utf8"));

for (const { id, at, text } of rows) {
  const body = { targets: [{ accountId }], text, scheduledAt: at, externalId: `old/${id}` };
  const { data, error } = await api.POST("/v1/posts", { body });
  console.log(id, data?.status ?? `cannot come over: ${error?.error.message}`);
}
