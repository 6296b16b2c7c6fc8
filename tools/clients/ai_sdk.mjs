// Tests with the packages `ai` and `@ai-sdk/openai-compatible`: text, tools, streams, objects.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.argv[3]}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");

const server = spawn(process.argv[2], ["serve", "--port", "0", "--log", "warn"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const url = await new Promise((resolve, reject) => {
  server.stdout.once("data", (data) => resolve(String(data).match(/http:\/\/\S+:\d+/)[0]));
  server.once("exit", () => reject(new Error("the server exited")));
});

const schema = {
  type: "object",
  properties: { unit: { enum: ["C", "F"] }, days: { type: "integer", minimum: 1, maximum: 7 } },
  required: ["unit", "days"],
  additionalProperties: false,
};
const check = ({ unit, days }) => {
  assert.ok(["C", "F"].includes(unit) && Number.isInteger(days) && days >= 1 && days <= 7);
};

try {
  const provider = createOpenAICompatible({
    name: "wf",
    baseURL: `${url}/v1`,
    supportsStructuredOutputs: true,
  });
  const model = provider("wf-demo");
  const ask = { model, prompt: "What is the weather?", seed: 5, maxRetries: 0 };

  const text = await generateText({ ...ask, maxOutputTokens: 12 });
  assert.ok(text.text.length > 10);

  const ran = [];
  const weather = tool({
    description: "The weather",
    inputSchema: jsonSchema(schema),
    execute: async (input) => {
      check(input);
      ran.push(input);
      return "rain";
    },
  });
  // The first step calls the tool, the second responds with its result.
  const steps = await generateText({
    ...ask,
    tools: { weather },
    maxOutputTokens: 900,
    stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
  });
  assert.equal(steps.steps[0].finishReason, "tool-calls");
  assert.ok(ran.length >= 1 && ran.length === steps.steps[0].toolCalls.length);
  assert.ok(steps.text.length > 0, "an answer came after it");

  const named = streamText({
    ...ask,
    tools: { weather: tool({ inputSchema: jsonSchema(schema) }) },
    toolChoice: { type: "tool", toolName: "weather" },
    maxOutputTokens: 900,
  });
  let pieces = "";
  for await (const part of named.fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "tool-input-delta") pieces += part.delta;
  }
  const [call] = await named.toolCalls;
  check(call.input);
  assert.deepEqual(JSON.parse(pieces), call.input);

  const { object } = await generateObject({ ...ask, schema: jsonSchema(schema), maxOutputTokens: 200 });
  check(object);
} finally {
  server.kill();
}
console.log(`ai (Node): ${require("ai/package.json").version} ok`);
