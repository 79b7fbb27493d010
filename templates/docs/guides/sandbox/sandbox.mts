// sandbox.mts: see what your program does when a platform fails.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const given = process.env as Record<string, string>;
const headers = { Authorization: `Bearer ${given.SOCIALPUB_KEY}` };
const api = createClient<paths>({ baseUrl: given.SOCIALPUB_URL, headers });
const faults = [{ fault: "status:400", operation: "com.atproto.repo.putRecord", times: 1 }];
await fetch(`${given.SOCIALPUB_LAB}/lab/faults`, { method: "POST", body: JSON.stringify(faults) });

const body = { targets: [{ accountId: given.SOCIALPUB_ACCOUNT }], text: "Is anybody there?" };
const { data } = await api.POST("/v1/posts", { body });
for (const result of data?.results ?? []) console.log(result.status, result.error?.message ?? "");
const ledger = await (await fetch(`${given.SOCIALPUB_LAB}/lab/ledger?platform=bluesky`)).json();
console.log("on the platform:", ledger.map((post: { text: string }) => post.text));
