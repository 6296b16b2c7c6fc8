// A server that serves the page as the binary does, and answers what a test wants.
import { createServer } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { built } from "./browser.mjs";

const PROPS = {
  default_generation_settings: {
    n_ctx: 8192,
    temperature: 1,
    top_k: 0,
    top_p: 1,
    min_p: 0,
    repetition_penalty: 1,
  },
  limits: { stop: 16, stop_bytes: 256, logit_bias: 1024, deadline_seconds: 600 },
  total_slots: 32,
  model_path: "mock",
  model_names: ["mock"],
  model_digest: "",
  architecture: "mock",
  isa: "any",
  threads: 1,
  kv: "f32",
  kv_tokens: 8192,
  system_fingerprint: "mock",
  build_info: "mock",
};

/**
 * `reply(text, send)` writes the answer to a message: `send` takes a chunk as the API has it. `health()` gives
 * a status and an error code, or nothing if all is well.
 */
export async function startMock({ reply, health = () => undefined, props = {} }) {
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
      const wrong = health();
      if (wrong) json(response, wrong.status, { error: { message: wrong.code, code: wrong.code } });
      else json(response, 200, { running: 0, waiting: 0 });
    },
    "/props": (_, response) => json(response, 200, { ...PROPS, ...props }),
    "/v1/chat/completions": async (request, response) => {
      let body = "";
      for await (const piece of request) body += piece;
      const wrong = health();
      if (wrong) {
        return json(response, wrong.status, { error: { message: wrong.code, code: wrong.code } });
      }
      response.writeHead(200, { "content-type": "text/event-stream" });
      const send = (chunk) => response.write(`data: ${JSON.stringify(chunk)}\n\n`);
      await reply(JSON.parse(body).messages.at(-1).content, send);
      response.end("data: [DONE]\n\n");
    },
  };
  const server = createServer((request, response) => {
    const route = routes[request.url];
    if (route) void route(request, response);
    else json(response, 404, { error: { message: "nothing here", code: "not_found" } });
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

/** A piece of a reply, as a chunk. */
export const piece = (content) => ({ choices: [{ delta: { content }, finish_reason: null }] });

/** The end of a reply, with what it cost. */
export const end = (replyTokens) => ({
  choices: [{ delta: {}, finish_reason: "stop" }],
  usage: {
    prompt_tokens: 10,
    completion_tokens: replyTokens,
    prompt_tokens_details: { cached_tokens: 0 },
  },
});

/** Sends a text in pieces of so many characters, leaving the loop to others between them. */
export async function sendPieces(text, size, send) {
  for (let at = 0; at < text.length; at += size) {
    send(piece(text.slice(at, at + size)));
    await turn();
  }
  send(end(Math.ceil(text.length / size)));
}
