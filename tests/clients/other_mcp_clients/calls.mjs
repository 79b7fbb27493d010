// The scenario of the environment, by the TypeScript SDK's own client: one line of JSON for the list, one for each call.
// REVISION: of the protocol. ADDRESS and KEY: over HTTP. COMMAND: a program and its arguments, over stdio.
const given = process.env;
const isNew = given.REVISION === "2026-07-28";

async function makeClient() {
  const about = { name: "scenario", version: "1" };
  const capabilities = { elicitation: { form: {} } };
  const accept = async () => ({ action: "accept", content: {} });
  if (isNew) {
    const { Client } = await import("@modelcontextprotocol/client");
    const client = new Client(about, { capabilities, versionNegotiation: { mode: { pin: given.REVISION } } });
    client.setRequestHandler("elicitation/create", accept);
    return client;
  }
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  const client = new Client(about, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, accept);
  return client;
}

async function makeTransport() {
  if (given.ADDRESS) {
    const name = isNew ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client/streamableHttp.js";
    const { StreamableHTTPClientTransport } = await import(name);
    const requestInit = { headers: { Authorization: `Bearer ${given.KEY}` } };
    return new StreamableHTTPClientTransport(new URL(given.ADDRESS), { requestInit });
  }
  const name = isNew ? "@modelcontextprotocol/client/stdio" : "@modelcontextprotocol/sdk/client/stdio.js";
  const { StdioClientTransport } = await import(name);
  const [command, ...args] = JSON.parse(given.COMMAND);
  return new StdioClientTransport({ command, args, env: JSON.parse(given.SERVER_ENVIRONMENT) });
}

const client = await makeClient();
await client.connect(await makeTransport());
const { tools } = await client.listTools();
console.log(JSON.stringify(tools.map((tool) => tool.name)));
const known = {};
for (const [name, args] of JSON.parse(given.SCENARIO)) {
  const filled = JSON.parse(JSON.stringify(args), (_, value) => known[value] ?? value);
  const result = await client.callTool({ name, arguments: filled });
  const answer = result.structuredContent;
  known.$plan = answer.plan ?? known.$plan;
  known.$post = answer.targets?.[0].post ?? known.$post;
  known.$version = answer.version ?? known.$version;
  console.log(JSON.stringify([name, result.isError === true, answer]));
}
await client.close();
