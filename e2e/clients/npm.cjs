// Drives the server with the npm clients: npm.cjs v1|legacy|auto COMMAND [ARGUMENT...], or npm.cjs v1|legacy|auto URL
// v1 is @modelcontextprotocol/sdk; legacy and auto are how its successor finds the revision of the protocol.
const assert = require("node:assert/strict");

const TOOL = "run_python_ephemeral";
const SLOW = { code: "import time; time.sleep(600)", timeout_seconds: 600 };

function library(mode) {
  if (mode !== "v1") {
    return { ...require("@modelcontextprotocol/client"), ...require("@modelcontextprotocol/client/stdio") };
  }
  const parts = ["index", "stdio", "sse", "streamableHttp"];
  return Object.assign({}, ...parts.map((part) => require(`@modelcontextprotocol/sdk/client/${part}.js`)));
}

async function connect(mode, command, ...args) {
  const { Client, StdioClientTransport, SSEClientTransport, StreamableHTTPClientTransport } = library(mode);
  const client = new Client({ name: "e2e", version: "1" }, mode === "v1" ? {} : { versionNegotiation: { mode } });
  let transport;
  if (command.endsWith("/sse")) transport = new SSEClientTransport(new URL(command));
  else if (command.startsWith("http://")) transport = new StreamableHTTPClientTransport(new URL(command));
  else transport = new StdioClientTransport({ command, args, env: process.env });
  await client.connect(transport);
  const call = (name, given, options) => {
    const params = { name, arguments: given };
    return mode === "v1" ? client.callTool(params, undefined, options) : client.callTool(params, options);
  };
  return { client, transport, call };
}

async function listing({ client }) {
  const { tools } = await client.listTools();
  const once = tools.find((tool) => tool.name === TOOL);
  assert.ok(once.outputSchema && once.annotations.readOnlyHint === false, JSON.stringify(once));
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 1);
}

async function calls({ call }) {
  const hello = await call(TOOL, { code: "print('Hello, MCP')" });
  assert.equal(hello.structuredContent.stdout, "Hello, MCP\n");
  const failed = await call(TOOL, { code: "import sys; sys.exit(3)" });
  assert.ok(!failed.isError && failed.structuredContent.exit_code === 3, JSON.stringify(failed));
  const refused = await call(TOOL, { code: "" });
  assert.ok(refused.isError && refused.content[0].text.includes("code is empty"), JSON.stringify(refused));
}

async function progress({ call }) {
  const heard = [];
  const code = "import time\nfor i in range(3): print(i, flush=True); time.sleep(0.7)";
  const result = await call(TOOL, { code }, { onprogress: (notice) => heard.push(notice) });
  assert.equal(result.structuredContent.stdout, "0\n1\n2\n");
  assert.ok(heard.some((notice) => notice.message === "running"), JSON.stringify(heard));
}

async function resources({ client, call }) {
  const result = await call(TOOL, { code: "open('a é.bin', 'wb').write(bytes(range(256)))" });
  const { uri } = result.content.find((content) => content.type === "resource_link");
  const { contents } = await client.readResource({ uri });
  assert.deepEqual([...Buffer.from(contents[0].blob, "base64")], [...Array(256).keys()]);
  await assert.rejects(client.readResource({ uri: "boxwright://runs/nothing/a" }));
}

// cancellation gives a call up as soon as it runs.
async function cancellation({ call }) {
  const enough = new AbortController();
  const options = { signal: enough.signal, onprogress: ({ message }) => message === "running" && enough.abort("enough") };
  await assert.rejects(call(TOOL, SLOW, options));
}

async function main(mode, ...target) {
  const session = await connect(mode, ...target);
  for (const step of [listing, calls, progress, resources, cancellation]) await step(session);
  const after = await session.call(TOOL, { code: "print('after')" });
  assert.equal(after.structuredContent.stdout, "after\n");
  if (target[0].startsWith("http://")) {
    await cancellation(session); // and leave at once; on stdio the client would kill the server after four seconds
    await session.transport.terminateSession?.();
  }
  await session.client.close();
  console.log("all well");
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
