// Reads texts with the official libraries: a JSON list of texts on stdin, a JSON list of what was found on stdout.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const api = await import(pathToFileURL(require.resolve("@atproto/api")));
const RichText = api.RichText ?? api.default.RichText;
const twitter = require("twitter-text").default ?? require("twitter-text");

function facets(text) {
  const rich = new RichText({ text });
  rich.detectFacetsWithoutResolution();
  return (rich.facets ?? []).map(({ index, features: [feature] }) => [
    index.byteStart, index.byteEnd, feature.$type.split("#")[1], feature.uri ?? feature.tag ?? feature.did,
  ]);
}

const texts = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => ({
  bluesky: facets(text),
  length: twitter.parseTweet(text).weightedLength,
  urls: twitter.extractUrlsWithIndices(text).map(({ url }) => url),
  cashtags: twitter.extractCashtags(text),
}))));
