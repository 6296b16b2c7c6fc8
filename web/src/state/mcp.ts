/** MCP servers that the operator lists: which are on, their tools, and the calls that need no click. */
import { computed, effect, signal } from "@preact/signals";
import { load, save } from "../browser/storage.ts";
import { McpClient, type McpResult, type McpTool } from "../mcp/client.ts";
import { props } from "./models.ts";

interface Server {
  state: "connecting" | "ready" | "failed";
  client: McpClient;
  tools: McpTool[];
  problem?: string;
}

const ENABLED = "wf-mcp";
const ALLOWED = "wf-mcp-allowed";

/** Servers that the operator lists. The content security policy allows these and no others. */
export const listedServers = computed(() => props.value?.mcp_servers ?? []);
/** Servers that the user has switched on. */
export const enabledServers = signal<string[]>(load<string[]>(ENABLED, []));
/** Tools that may be called without a click, as pairs of server and name in JSON. */
export const allowedTools = signal<string[]>(load<string[]>(ALLOWED, []));
/** State of the servers that are on, by their address. */
export const servers = signal<Record<string, Server>>({});

export function enableServer(url: string, isOn: boolean): void {
  const others = enabledServers.peek().filter((other) => other !== url);
  enabledServers.value = isOn ? [...others, url] : others;
  save(ENABLED, enabledServers.value);
}

/** Keeps the connections up to date with the servers that are on. */
export function watchMcp(): void {
  effect(() => {
    const on = enabledServers.value.filter((url) => listedServers.value.includes(url));
    const known = servers.peek();
    servers.value = Object.fromEntries(
      on.map((url) => [
        url,
        known[url] ?? { state: "connecting", client: new McpClient(url), tools: [] },
      ]),
    );
    for (const url of on) if (!known[url]) void connect(url);
  });
}

export async function connect(url: string): Promise<void> {
  const { signal } = new AbortController();
  change(url, { state: "connecting" });
  try {
    const client = servers.peek()[url]!.client;
    await client.connect(signal);
    change(url, { state: "ready", tools: await client.tools(signal) });
  } catch (error) {
    change(url, { state: "failed", tools: [], problem: (error as Error).message });
  }
}

function change(url: string, changes: Partial<Server>): void {
  const server = servers.peek()[url];
  if (server) servers.value = { ...servers.peek(), [url]: { ...server, ...changes } };
}

interface OfferedTool {
  url: string;
  tool: McpTool;
}

/** Tools of all servers that are on, by the names that requests use. */
const offered = computed(() => {
  const byName = new Map<string, OfferedTool>();
  for (const [url, { tools }] of Object.entries(servers.value)) {
    for (const tool of tools) {
      let name = tool.name;
      for (let number = 2; byName.has(name); number += 1) name = `${tool.name}_${number}`;
      byName.set(name, { url, tool });
    }
  }
  return byName;
});

/** Returns the request fields that offer the tools. */
export function toolFields(): { tools?: unknown[] } {
  const tools = Array.from(offered.peek(), ([name, { tool }]) => ({
    type: "function",
    function: {
      name,
      description: tool.description ?? "",
      parameters: tool.inputSchema ?? { type: "object" },
    },
  }));
  return tools.length ? { tools } : {};
}

/** Returns the address of the server that a tool belongs to. */
export const serverOf = (name: string): string | undefined => offered.value.get(name)?.url;

const allowanceOf = (name: string): string | undefined => {
  const found = offered.peek().get(name);
  return found && JSON.stringify([found.url, found.tool.name]);
};

export const isAllowed = (name: string): boolean =>
  allowedTools.peek().includes(allowanceOf(name) ?? "");

export function allowTool(name: string): void {
  const allowance = allowanceOf(name);
  if (!allowance) return;
  allowedTools.value = [...new Set([...allowedTools.peek(), allowance])];
  save(ALLOWED, allowedTools.value);
}

/** Withdraws what was allowed to call without a click. */
export function forgetAllowed(): void {
  allowedTools.value = [];
  save(ALLOWED, []);
}

/** Calls a tool with the arguments that a model wrote. Problems are results that the model can read. */
export async function callTool(
  name: string,
  text: string,
  signal: AbortSignal,
): Promise<McpResult> {
  const found = offered.peek().get(name);
  if (!found) return { text: `there is no tool named ${name}`, isError: true };
  let args: unknown;
  try {
    args = JSON.parse(text || "{}");
  } catch {
    return { text: "the arguments are not valid JSON", isError: true };
  }
  try {
    return await servers.peek()[found.url]!.client.call(found.tool.name, args, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return { text: `${found.url}: ${(error as Error).message}`, isError: true };
  }
}
