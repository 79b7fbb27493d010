// Publish each text with openapi-fetch, repeating with its key until it is answered.
import createClient from "openapi-fetch";

const given = process.env;
const api = createClient({ baseUrl: given.URL, headers: { Authorization: `Bearer ${given.KEY}` } });
const again = [408, 429, 500, 502, 503, 504];

async function publish(text) {
  const request = { params: { header: { "Idempotency-Key": text } }, body: { targets: [{ accountId: given.ACCOUNT }], text } };
  try {
    const { data, error, response } = await api.POST("/v1/posts", request);
    if (data) return data.results[0].status;
    if (!again.includes(response.status)) throw new Error(`${response.status} ${JSON.stringify(error)}`);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error; // the connection ended
  }
}

for (const text of JSON.parse(given.TEXTS)) {
  let status;
  for (let tries = 0; tries < 5 && !status; tries++) status = await publish(text);
  console.log(status);
}
