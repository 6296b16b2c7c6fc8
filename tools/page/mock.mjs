// Serves the page as the binary does, with responses that the test controls.
import { createServer } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { built } from "./browser.mjs";

const PROPS = {
  default_generation_settings: {
    n_ctx: 8192,
  },
  sampling_params: [
    { name: "temperature", default: 1, min: 0, max: 100, exclusive_min: false, doc: "Randomness" },
    { name: "top_p", default: 1, min: 0, max: 1, exclusive_min: true, doc: "Nucleus sampling" },
  ],
  limits: { stop: 16, stop_bytes: 256, logit_bias: 1024, deadline_seconds: 600 },
  total_slots: 32,
  model_path: "mock",
  model_names: ["mock"],
  model_digest: "",
  architecture: "mock",
  isa: "any",
  threads: 1,
  kv: "bf16",
  kv_tokens: 8192,
  system_fingerprint: "mock",
  build_info: "mock",
};

/**
 * `respond(text, send, body)` writes the response to a message; `send` takes a chunk of the API, `body` is the whole
 * request. `health()` returns a status and an error code, or undefined if the server is ready. `more` has other routes.
 */
export async function startMock({ respond, health = () => undefined, props = {}, more = {} }) {
  const json = (response, status, value) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
  const routes = {
    "/": (_, response) => {
      response.writeHead(200, {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policyOf(props.mcp_servers ?? []),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
      });
      response.end(built.html);
    },
    "/health": (_, response) => {
      const problem = health();
      if (problem) json(response, problem.status, errorOf(problem.code));
      else json(response, 200, { running: 0, waiting: 0 });
    },
    "/props": (_, response) => json(response, 200, { ...PROPS, ...props }),
    // Four characters a token.
    "/tokenize": async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      json(response, 200, { count: Math.ceil(JSON.parse(body).prompt.length / 4) });
    },
    "/v1/chat/completions": async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      const problem = health();
      if (problem) return json(response, problem.status, errorOf(problem.code));
      response.writeHead(200, { "content-type": "text/event-stream" });
      const send = (chunk) => response.write(`data: ${JSON.stringify(chunk)}\n\n`);
      const sent = JSON.parse(body);
      await respond(sent.messages.at(-1).content, send, sent);
      response.end("data: [DONE]\n\n");
    },
    ...more,
  };
  const server = createServer((request, response) => {
    const route = routes[request.url];
    if (route) void route(request, response);
    else json(response, 404, errorOf("not_found"));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** The policy of the page, as the binary writes it. */
const policyOf = (servers) =>
  built.policy.replace("connect-src 'self'", ["connect-src 'self'", ...servers].join(" "));

const errorOf = (code) => ({ error: { message: code, code } });

/** A chunk with text. */
export const chunk = (content) => ({ choices: [{ delta: { content }, finish_reason: null }] });

/** A chunk with what the model thinks. */
export const thought = (reasoning_content) => ({ choices: [{ delta: { reasoning_content } }] });

/** The last chunk of a response, with its usage. */
export const end = (tokens) => ({
  choices: [{ delta: {}, finish_reason: "stop" }],
  usage: {
    prompt_tokens: 10,
    completion_tokens: tokens,
    prompt_tokens_details: { cached_tokens: 0 },
  },
});

/** Sends a text in chunks of `size` characters, yielding to the event loop after each. */
export async function sendChunks(text, size, send) {
  for (let at = 0; at < text.length; at += size) {
    send(chunk(text.slice(at, at + size)));
    await turn();
  }
  send(end(Math.ceil(text.length / size)));
}
