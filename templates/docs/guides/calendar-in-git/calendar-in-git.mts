// calendar-in-git.mts: see what became of the calendar `spring`.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const given = process.env as Record<string, string>;
const headers = { Authorization: `Bearer ${given.SOCIALPUB_KEY}` };
const api = createClient<paths>({ baseUrl: given.SOCIALPUB_URL, headers });

let cursor: string | undefined;
do {
  const query = { externalIdPrefix: "spring/", limit: 200, ...(cursor ? { cursor } : {}) };
  const { data, error } = await api.GET("/v1/posts", { params: { query } });
  if (error) throw new Error(error.error.message);
  for (const post of data.data) console.log(post.externalId, post.platform, post.status, post.url ?? post.scheduledAt);
  cursor = data.nextCursor ?? undefined;
} while (cursor);
