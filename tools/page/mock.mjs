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
 * `respond(text, send)` writes the response to a message; `send` takes a chunk of the API. `health()` returns a
 * status and an error code, or undefined if the server is ready.
 */
export async function startMock({ respond, health = () => undefined, props = {} }) {
  const json = (response, status, value) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
  const routes = {
    "/": (_, response) => {
      response.writeHead(200, {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": built.policy,
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
    "/v1/chat/completions": async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      const problem = health();
      if (problem) return json(response, problem.status, errorOf(problem.code));
      response.writeHead(200, { "content-type": "text/event-stream" });
      const send = (chunk) => response.write(`data: ${JSON.stringify(chunk)}\n\n`);
      await respond(JSON.parse(body).messages.at(-1).content, send);
      response.end("data: [DONE]\n\n");
    },
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

const errorOf = (code) => ({ error: { message: code, code } });

/** A chunk with text. */
export const chunk = (content) => ({ choices: [{ delta: { content }, finish_reason: null }] });

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
