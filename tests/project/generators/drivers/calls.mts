// Ten calls with the types of openapi-typescript, by its own client.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { env: Record<string, string> };

const given = process.env;
const api = createClient<paths>({ baseUrl: given.URL, headers: { Authorization: `Bearer ${given.KEY}` } });
const targets = [{ accountId: given.ACCOUNT }];

function must<T>(answer: { data?: T; error?: components["schemas"]["ErrorEnvelope"] }): T {
  if (answer.data === undefined) throw new Error(answer.error?.error.message);
  return answer.data;
}

const platforms = must(await api.GET("/v1/platforms"));
console.log("platforms", platforms.data.map((row) => row.platform).sort().join(","));
const checked = must(await api.POST("/v1/posts/validate", { body: { targets, text: "Now." } }));
console.log("validate", checked.valid, checked.results[0].text.length);
const now = must(await api.POST("/v1/posts", { body: { targets, text: "Now." } }));
console.log("publish", now.results[0].status, now.results[0].url);
const form = new FormData();
const bytes = Uint8Array.from(atob(given.PICTURE_BASE64), (letter) => letter.charCodeAt(0));
form.set("file", new Blob([bytes], { type: "image/png" }), "square.png");
form.set("altText", "A square.");
const uploading = { body: { file: "", altText: "A square." }, bodySerializer: () => form };
const media = must(await api.POST("/v1/media", uploading));
console.log("media", media.kind, media.width, media.altText);
const scheduled = { targets, text: "Later.", media: [media.id], scheduledAt: given.AT };
const later = must(await api.POST("/v1/posts", { body: scheduled }));
const path = { id: later.results[0].postId };
console.log("schedule", later.status, later.results[0].status);
const shown = must(await api.GET("/v1/posts/{id}", { params: { path } }));
console.log("get", shown.status, shown.text, shown.mediaRefs[0].kind, shown.attempts.length);
const moved = must(await api.PATCH("/v1/posts/{id}", { params: { path }, body: { scheduledAt: given.MOVED } }));
console.log("patch", Date.parse(moved.scheduledAt ?? "") / 1000);
console.log("cancel", must(await api.DELETE("/v1/posts/{id}", { params: { path } })).status);
const asked = { url: given.RECEIVER, events: ["quota.warning" as const] };
const endpoint = must(await api.POST("/v1/webhook-endpoints", { body: asked }));
console.log("endpoint", endpoint.events[0], endpoint.signingSecret.slice(0, 6));
const events = must(await api.GET("/v1/events")).data;
console.log("events", events.map((event) => event.type).sort().join(","));
console.log("url", ...events.map((event) => (event.type === "post.published" ? event.data.url : "")).filter(Boolean));
const refused = await api.POST("/v1/posts", { body: { targets, text: "x".repeat(301) } });
const error = refused.error?.error;
const failures = error?.platformResponse as components["schemas"]["PreflightFailure"][];
console.log("error", refused.response.status, error?.code, error?.rule, failures[0].targetIndex);
