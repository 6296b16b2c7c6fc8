// Tests with the `openai` package for Node: chat, streams, log probabilities, errors, aborts.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(`${process.argv[3]}/`);
const { default: OpenAI } = await import(require.resolve("openai"));

const server = spawn(process.argv[2], ["serve", "--port", "0", "--log", "warn"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const url = await new Promise((resolve, reject) => {
  server.stdout.once("data", (data) => resolve(String(data).match(/http:\/\/\S+:\d+/)[0]));
  server.once("exit", () => reject(new Error("the server exited")));
});

try {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
  const ask = {
    model: "wf-demo",
    messages: [{ role: "user", content: "Tell me a story about a cat" }],
    max_tokens: 24,
    seed: 3,
  };
  const whole = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
  const text = whole.choices[0].message.content;
  assert.equal(whole.usage.completion_tokens, 24);
  assert.equal(whole.choices[0].logprobs.content.length, 24);

  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) {
    streamed += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.equal(streamed, text);

  const several = await client.chat.completions.create({ ...ask, n: 2 });
  assert.equal(several.choices[0].message.content, text);
  assert.notEqual(several.choices[1].message.content, text);

  await assert.rejects(client.chat.completions.create({ ...ask, top_p: 2 }), (error) => {
    assert.equal(error.status, 400);
    assert.equal(error.param, "top_p");
    return true;
  });

  const long = await client.chat.completions.create({
    ...ask,
    max_tokens: 1500,
    ignore_eos: true,
    stream: true,
  });
  for await (const chunk of long) {
    if (chunk.choices[0]?.delta?.content) break;
  }
  long.controller.abort();
  const metric = async (name) => {
    const lines = (await (await fetch(`${url}/metrics`)).text()).split("\n");
    return Number(lines.find((line) => line.startsWith(`${name} `)).split(" ")[1]);
  };
  while ((await metric("wf:kv_pages_in_use")) > 0) await sleep(20);
  assert.equal(await metric("wf:cancelled_requests_total"), 1);
  console.log("openai (Node): ok");
} finally {
  server.kill();
}
