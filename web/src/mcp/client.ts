/** A client of one MCP server over streamable HTTP: it lists tools and calls them. */
import { EventReader } from "../api/sse.ts";

const PROTOCOL_VERSION = "2025-06-18";
/** A server that lists more is not read further. */
const MAX_TOOLS = 200;

export interface McpTool {
  name: string;
  description?: string;
  inputSchema?: Record<string, unknown>;
}

export interface McpResult {
  text: string;
  isError: boolean;
}

interface Answer {
  id?: number | string | null;
  result?: Record<string, unknown>;
  error?: { message?: string };
}

export class McpClient {
  private session: string | null = null;
  private version = "";
  private requests = 0;

  constructor(readonly url: string) {}

  /** Begins a session. */
  async connect(signal: AbortSignal): Promise<void> {
    this.session = null;
    this.version = "";
    const { protocolVersion } = await this.request(
      "initialize",
      {
        protocolVersion: PROTOCOL_VERSION,
        capabilities: {},
        clientInfo: { name: "wrinklefree-page", version: "1" },
      },
      signal,
    );
    this.version = typeof protocolVersion === "string" ? protocolVersion : PROTOCOL_VERSION;
    await this.post({ jsonrpc: "2.0", method: "notifications/initialized" }, signal);
  }

  async tools(signal: AbortSignal): Promise<McpTool[]> {
    const tools: McpTool[] = [];
    let cursor: unknown;
    do {
      const page = await this.request("tools/list", cursor ? { cursor } : {}, signal);
      if (!Array.isArray(page.tools)) throw new Error("the list of tools is not an array");
      tools.push(...page.tools.filter(isTool));
      cursor = page.nextCursor;
    } while (cursor && tools.length < MAX_TOOLS);
    return tools.slice(0, MAX_TOOLS);
  }

  async call(name: string, args: unknown, signal: AbortSignal): Promise<McpResult> {
    const result = await this.request("tools/call", { name, arguments: args }, signal);
    return { text: textOf(result), isError: result.isError === true };
  }

  private async request(
    method: string,
    params: unknown,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const id = (this.requests += 1);
    const response = await this.post({ jsonrpc: "2.0", id, method, params }, signal);
    const answer = await answerTo(id, response);
    if (answer.error) throw new Error(answer.error.message ?? `${method} failed`);
    return answer.result ?? {};
  }

  private async post(message: unknown, signal: AbortSignal): Promise<Response> {
    const headers = new Headers({
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    });
    if (this.session) headers.set("mcp-session-id", this.session);
    if (this.version) headers.set("mcp-protocol-version", this.version);
    let response: Response;
    try {
      const body = JSON.stringify(message);
      // Cookies and the key of this server are none of its business.
      const init: RequestInit = { method: "POST", headers, body, signal, credentials: "omit" };
      response = await fetch(this.url, {
        ...init,
        cache: "no-store",
        referrerPolicy: "no-referrer",
      });
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Error("it cannot be reached, or does not allow requests of this page (CORS)");
    }
    if (!response.ok) throw new Error(`it returned status ${response.status}`);
    this.session = response.headers.get("mcp-session-id") ?? this.session;
    return response;
  }
}

/** Reads the answer to a request, which is the body or one event of a stream. */
async function answerTo(id: number, response: Response): Promise<Answer> {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    return (await response.json()) as Answer;
  }
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("its stream ended without an answer");
    for (const event of events.push(value)) {
      const answer = JSON.parse(event) as Answer;
      if (answer.id !== id) continue;
      void reader.cancel();
      return answer;
    }
  }
}

const isTool = (value: unknown): value is McpTool =>
  typeof value === "object" && value !== null && typeof (value as McpTool).name === "string";

/** Joins the texts of a result; other contents are named by their type. */
function textOf({ content, structuredContent }: Record<string, unknown>): string {
  if (!Array.isArray(content) || !content.length) {
    return structuredContent === undefined ? "" : JSON.stringify(structuredContent);
  }
  const parts = content as { type?: string; text?: string }[];
  return parts.map(({ type, text }) => text ?? `[${type ?? "unknown content"}]`).join("\n");
}
