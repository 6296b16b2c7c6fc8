/** MCP servers in the settings: each is off until the user switches it on. */
import {
  allowedTools,
  connect,
  enableServer,
  enabledServers,
  forgetAllowed,
  listedServers,
  servers,
} from "../state/mcp.ts";

export function McpSettings() {
  if (!listedServers.value.length) return null;
  return (
    <fieldset class="mcp">
      <legend>Tools (MCP servers)</legend>
      <p class="quiet">
        The page sends the arguments of tool calls to these servers, each after you allow it.
      </p>
      {listedServers.value.map((url) => (
        <ServerSwitch key={url} url={url} />
      ))}
      {allowedTools.value.length > 0 && (
        <button type="button" class="button" onClick={forgetAllowed}>
          Ask again for {allowedTools.value.length}{" "}
          {allowedTools.value.length === 1 ? "tool" : "tools"}
        </button>
      )}
    </fieldset>
  );
}

function ServerSwitch({ url }: { url: string }) {
  const server = servers.value[url];
  return (
    <div class="mcp-server">
      <label class="check">
        <input
          type="checkbox"
          checked={enabledServers.value.includes(url)}
          onChange={(event) => enableServer(url, event.currentTarget.checked)}
        />
        <span class="mcp-url">{url}</span>
      </label>
      {server?.state === "connecting" && (
        <p class="quiet" role="status">
          Connecting
        </p>
      )}
      {server?.state === "ready" && (
        <p class="quiet" role="status">
          {server.tools.length
            ? `Tools: ${server.tools.map(({ name }) => name).join(", ")}`
            : "No tools"}
        </p>
      )}
      {server?.state === "failed" && (
        <p class="problem" role="alert">
          {server.problem}.{" "}
          <button type="button" class="text-button" onClick={() => void connect(url)}>
            Try again
          </button>
        </p>
      )}
    </div>
  );
}
