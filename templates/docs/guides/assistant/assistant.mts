// assistant.mts: one key plans, another publishes exactly that.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const given = process.env as Record<string, string>;
const connect = (key: string) =>
  createClient<paths>({ baseUrl: given.SOCIALPUB_URL, headers: { Authorization: `Bearer ${key}` } });
const assistant = connect(given.SOCIALPUB_PLANNING_KEY);
const person = connect(given.SOCIALPUB_KEY);

const targets = [{ accountId: given.SOCIALPUB_ACCOUNT }];
const text = "Written by an assistant, published by a person.";
const checked = await assistant.POST("/v1/posts/validate", { body: { targets, text, plan: true } });
const plan = checked.data?.plan?.token;
if (!plan) throw new Error("The post breaks a rule: no plan was made.");
const refused = await assistant.POST("/v1/posts", { body: { plan } as never });
console.log("assistant:", refused.error?.error.rule);
const published = await person.POST("/v1/posts", { body: { plan } as never });
for (const result of published.data?.results ?? []) console.log("person:", result.status, result.url);
