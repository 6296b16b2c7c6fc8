import assert from "node:assert/strict";
import { test } from "node:test";
import { ResponseState, sightOf } from "../src/state/response.ts";

const SIGHT = { tokens: 0, slides: false };

const delta = (delta: object) => ({ choices: [{ delta }] });

test("thinking is kept apart from the answer, by either name", () => {
  for (const name of ["reasoning_content", "reasoning"]) {
    const response = new ResponseState(SIGHT, false);
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
  const response = new ResponseState(SIGHT, false);
  response.take(delta({ reasoning_content: "a", reasoning: "a" }));
  assert.equal(response.thinking()?.text, "a");
});

test("a model sees its context, or a window with its sinks", () => {
  const props = (attention?: object) =>
    ({ default_generation_settings: { n_ctx: 2048 }, attention }) as never;
  assert.deepEqual(sightOf(undefined), SIGHT);
  assert.deepEqual(sightOf(props()), { tokens: 2048, slides: false });
  const dense = { mode: "dense", window: null, sinks: null, max_tokens: 2048 };
  assert.deepEqual(sightOf(props(dense)), { tokens: 2048, slides: false });
  const window = { mode: "window=512,sinks=4", window: 512, sinks: 4, max_tokens: 1048576 };
  assert.deepEqual(sightOf(props(window)), { tokens: 516, slides: true });
  const response = new ResponseState(sightOf(props(window)), false);
  response.take({ ...delta({ content: "a" }), timings: { out_of_sight_n: 7 } as never });
  const stats = response.stats();
  assert.deepEqual([stats?.context, stats?.slides, stats?.outOfSight], [516, true, 7]);
});
