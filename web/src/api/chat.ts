/** One reply, as it is written. */
import { ask, streamError, unreachable } from "./client.ts";
import { EventReader } from "./sse.ts";
import type { ChatChunk, ChatRequest } from "./wire.ts";

const DONE = "[DONE]";

/** The events of a reply. Throws `Refused`; ends early only by its signal. */
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
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.body) throw unreachable();
  const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader();
  for (;;) {
    let piece;
    try {
      piece = await pieces.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw unreachable();
    }
    // A stream that ends without saying so was cut.
    if (piece.done) throw unreachable();
    for (const event of events.push(piece.value)) {
      if (event === DONE) return;
      const chunk = JSON.parse(event) as ChatChunk;
      if (chunk.error) throw streamError(chunk.error);
      yield chunk;
    }
  }
}
