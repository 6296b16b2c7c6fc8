// A small MCP server over streamable HTTP: it adds numbers, fails, and echoes.
import { createServer } from "node:http";

const TOOLS = [
  {
    name: "add",
    description: "Adds two numbers",
    inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } },
  },
  { name: "fail", description: "Always fails", inputSchema: { type: "object" } },
];

const SESSION = "session-1";

/** Starts a server. `calls` has the tool calls it received, `methods` all methods; `isOpen` false refuses browsers. */
export async function startMcp({ isStreaming = false, isOpen = true } = {}) {
  const received = { calls: [], methods: [], headers: [] };
  const results = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "test", version: "1" },
    }),
    // In two pages.
    "tools/list": ({ cursor }) =>
      cursor ? { tools: TOOLS.slice(1) } : { tools: TOOLS.slice(0, 1), nextCursor: "2" },
    "tools/call": ({ name, arguments: args }) => {
      received.calls.push({ name, args });
      if (name === "fail") return { content: [{ type: "text", text: "it is broken" }], isError: true };
      return { content: [{ type: "text", text: String(args.a + args.b) }] };
    },
  };
  const server = createServer(async (request, response) => {
    if (isOpen) {
      response.setHeader("access-control-allow-origin", "*");
      response.setHeader(
        "access-control-allow-headers",
        "content-type, mcp-session-id, mcp-protocol-version",
      );
      response.setHeader("access-control-expose-headers", "mcp-session-id");
    }
    if (request.method === "OPTIONS") return response.writeHead(204).end();
    let body = "";
    for await (const part of request) body += part;
    const { id, method, params } = JSON.parse(body);
    received.methods.push(method);
    received.headers.push(request.headers);
    if (id === undefined) return response.writeHead(202).end();
    const needsSession = method !== "initialize";
    if (needsSession && request.headers["mcp-session-id"] !== SESSION) return response.writeHead(400).end();
    const answer = JSON.stringify({ jsonrpc: "2.0", id, result: results[method](params) });
    if (!needsSession) response.setHeader("mcp-session-id", SESSION);
    if (!isStreaming) {
      return response.writeHead(200, { "content-type": "application/json" }).end(answer);
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const note = JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: {} });
    response.end(`event: message\ndata: ${note}\n\nevent: message\ndata: ${answer}\n\n`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    ...received,
    url: `http://127.0.0.1:${server.address().port}/mcp`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
