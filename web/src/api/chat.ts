/** Streams one chat completion. */
import { send, streamError, unreachable } from "./client.ts";
import { EventReader } from "./sse.ts";
import type { ChatChunk, ChatRequest } from "./wire.ts";

const DONE = "[DONE]";

/** Yields the chunks of a response. Throws `ApiError`, or the abort error of its signal. */
export async function* streamChat(
  request: ChatRequest,
  signal: AbortSignal,
): AsyncGenerator<ChatChunk> {
  const body = {
    ...request,
    stream: true,
    stream_options: { include_usage: true },
    return_progress: true,
  };
  const response = await send("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.body) throw unreachable();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader();
  for (;;) {
    let read;
    try {
      read = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw unreachable();
    }
    // A stream that ends without [DONE] was cut off.
    if (read.done) throw unreachable();
    for (const event of events.push(read.value)) {
      if (event === DONE) return;
      const chunk = JSON.parse(event) as ChatChunk;
      if (chunk.error) throw streamError(chunk.error);
      yield chunk;
    }
  }
}
