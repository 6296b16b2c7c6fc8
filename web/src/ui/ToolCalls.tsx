/** Tool calls of a response: what is called with which arguments, and what it returned. */
import type { CallState, Round, ToolCall } from "../history/calls.ts";
import { escapeBidi } from "../markdown/bidi.ts";
import { decide } from "../state/calls.ts";
import { serverOf } from "../state/mcp.ts";
import { Markdown } from "./Markdown.tsx";
import { EMPTY_BLOCK } from "../state/block.ts";

export function Rounds({ rounds, isRunning }: { rounds: Round[]; isRunning: boolean }) {
  return (
    <>
      {rounds.map(({ content, calls }, at) => (
        <div key={at}>
          {content && <Markdown text={content} block={EMPTY_BLOCK} isFinal />}
          {calls.map((call) => (
            <ToolCallView key={call.id} call={call} isRunning={isRunning} />
          ))}
        </div>
      ))}
    </>
  );
}

const STATES: Record<CallState, string> = {
  asking: "not called",
  running: "running",
  done: "done",
  failed: "failed",
  denied: "denied",
};

function ToolCallView({ call, isRunning }: { call: ToolCall; isRunning: boolean }) {
  const { name, state, result } = call;
  const isAsking = state === "asking" && isRunning;
  return (
    <section class={`call ${state}`} aria-label={`Tool call ${name}`}>
      <p class="call-head">
        <strong>{escapeBidi(name)}</strong>
        <span class="quiet">{isAsking ? "waits for you" : STATES[state]}</span>
      </p>
      <pre class="call-text" tabIndex={0} aria-label="Arguments">
        {escapeBidi(pretty(call.arguments))}
      </pre>
      {isAsking && <Question call={call} />}
      {result !== undefined && (
        <details open={state === "failed"}>
          <summary>{state === "failed" ? "Error" : "Result"}</summary>
          <pre class="call-text" tabIndex={0} aria-label="Result">
            {escapeBidi(result)}
          </pre>
        </details>
      )}
    </section>
  );
}

function Question({ call: { id, name } }: { call: ToolCall }) {
  return (
    <div class="call-question" role="group" aria-label={`Allow ${name}?`}>
      <p class="quiet">The model wants to call this tool of {serverOf(name) ?? "no server"}.</p>
      <button type="button" class="button" onClick={() => decide(id, "once")}>
        Allow once
      </button>
      <button type="button" class="button" onClick={() => decide(id, "always")}>
        Always allow this tool
      </button>
      <button type="button" class="button" onClick={() => decide(id, "deny")}>
        Deny
      </button>
    </div>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
