/** Runs the tool calls of a response, each after the user has allowed it. */
import type { Signal } from "@preact/signals";
import type { Round, ToolCall } from "../history/calls.ts";
import { allowTool, callTool, isAllowed } from "./mcp.ts";
import { announcement } from "./notice.ts";

export type Decision = "once" | "always" | "deny";

/** Calls that wait for the user, by their id. */
const waiting = new Map<string, (decision: Decision) => void>();

/** Passes on what the user decides about a call. */
export function decide(id: string, decision: Decision): void {
  waiting.get(id)?.(decision);
}

/** Runs the calls of the last round, one after the other. Rejects if the signal is aborted. */
export async function runCalls(rounds: Signal<Round[]>, signal: AbortSignal): Promise<void> {
  for (const { id } of rounds.peek().at(-1)?.calls ?? []) await runCall(rounds, id, signal);
}

async function runCall(rounds: Signal<Round[]>, id: string, signal: AbortSignal): Promise<void> {
  const call = rounds
    .peek()
    .at(-1)!
    .calls.find((call) => call.id === id)!;
  const change = (changes: Partial<ToolCall>) =>
    (rounds.value = changed(rounds.peek(), id, changes));
  if (!isAllowed(call.name)) {
    announcement.value = `The model wants to call ${call.name}. Allow or deny it.`;
    const decision = await decisionOn(id, signal);
    if (decision === "deny") return void change({ state: "denied" });
    if (decision === "always") allowTool(call.name);
  }
  change({ state: "running" });
  const { text, isError } = await callTool(call.name, call.arguments, signal);
  change({ state: isError ? "failed" : "done", result: text });
  announcement.value = `${call.name} ${isError ? "failed" : "returned a result"}`;
}

function decisionOn(id: string, signal: AbortSignal): Promise<Decision> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason as Error);
    waiting.set(id, (decision) => {
      waiting.delete(id);
      signal.removeEventListener("abort", stop);
      resolve(decision);
    });
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
}

function changed(rounds: Round[], id: string, changes: Partial<ToolCall>): Round[] {
  const call = (call: ToolCall) => (call.id === id ? { ...call, ...changes } : call);
  return rounds.map((round) => ({ ...round, calls: round.calls.map(call) }));
}
