import assert from "node:assert/strict";
import { test } from "node:test";
import { ResponseState } from "../src/state/response.ts";

const delta = (delta: object) => ({ choices: [{ delta }] });

test("thinking is kept apart from the answer, by either name", () => {
  for (const name of ["reasoning_content", "reasoning"]) {
    const response = new ResponseState(0, false);
    assert.equal(response.thinking(), undefined);
    response.take(delta({ [name]: "Let me " }));
    assert.ok(response.hasBegun);
    response.take(delta({ [name]: "see" }));
    const { ms } = response.thinking()!;
    response.take(delta({ content: "42" }));
    response.take(delta({ content: "." }));
    assert.equal(response.text, "42.");
    assert.equal(response.thinking()?.text, "Let me see");
    assert.equal(response.thinking()?.ms, ms, "the answer does not count as thinking");
    assert.equal(response.stats()?.replyTokens, 4);
  }
});

test("both names in one event are not counted twice", () => {
  const response = new ResponseState(0, false);
  response.take(delta({ reasoning_content: "a", reasoning: "a" }));
  assert.equal(response.thinking()?.text, "a");
});
