// webhooks.mts: receive events on port 3000, and act on each once.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = Buffer.from(process.env.SOCIALPUB_WEBHOOK_SECRET!.replace("whsec_", ""), "base64");
const seen = new Set<string>(); // keep it in your database

function isGenuine(headers: Record<string, string | string[] | undefined>, body: Buffer): boolean {
  const sent = String(headers["webhook-timestamp"]);
  const signed = Buffer.concat([Buffer.from(`${headers["webhook-id"]}.${sent}.`), body]);
  const expected = Buffer.from("v1," + createHmac("sha256", secret).update(signed).digest("base64"));
  const isRecent = Math.abs(Date.now() / 1000 - Number(sent)) < 300;
  return isRecent && String(headers["webhook-signature"]).split(" ").some((one) => {
    const given = Buffer.from(one);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (request, response) => {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces);
  const genuine = isGenuine(request.headers, body);
  response.writeHead(genuine ? 204 : 401).end();
  const event = genuine ? JSON.parse(body.toString()) : null;
  if (event && !seen.has(event.id)) {
    seen.add(event.id);
    console.log(event.type, event.data.id);
  }
}).listen(Number(process.env.PORT ?? 3000));
