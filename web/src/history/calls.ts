/** Tool calls of a response, and their form in later requests. */
import type { ChatRequest } from "../api/wire.ts";

export type CallState = "asking" | "running" | "done" | "failed" | "denied";

export interface ToolCall {
  id: string;
  name: string;
  /** Arguments, as JSON that the model wrote. */
  arguments: string;
  state: CallState;
  /** What the tool returned, or the error. */
  result?: string;
}

/** Text of a response up to its tool calls. */
export interface Round {
  content: string;
  calls: ToolCall[];
}

type RequestMessage = ChatRequest["messages"][number];

/** Returns the messages of a round: the calls, then what each returned. */
export function messagesOf({ content, calls }: Round): RequestMessage[] {
  const tool_calls = calls.map(({ id, name, arguments: args }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: args },
  }));
  const results = calls.map(({ id, state, result }) => ({
    role: "tool" as const,
    tool_call_id: id,
    content: state === "denied" ? "The user did not allow this call." : (result ?? ""),
  }));
  return [{ role: "assistant", content, tool_calls }, ...results];
}
