/** Status line of a response before its first token. */
import { connection, load } from "../state/connection.ts";
import type { Phase } from "../state/response.ts";
import { count } from "./units.ts";

export function PhaseLine({ phase }: { phase: Phase }) {
  switch (phase.kind) {
    case "sent":
      return <Waiting text={waitingText(load.value.waiting)} />;
    case "queued":
      return <Waiting text={`The queue is full. Retrying in ${phase.seconds} s`} />;
    case "unavailable":
      return <Waiting text={UNAVAILABLE[connection.value] ?? "Waiting for the server"} />;
    case "prefill":
      return <Prefill total={phase.progress.total} done={phase.progress.processed} />;
    case "streaming":
      // A line below growing text would jump, so the speed is shown at the composer.
      return null;
  }
}

function waitingText(waiting: number): string {
  if (!waiting) return "Waiting for the server";
  return `Waiting in the queue: ${count(waiting)} ${waiting === 1 ? "request" : "requests"} waiting`;
}

const UNAVAILABLE: Record<string, string> = {
  loading: "The model is loading. Your message is sent when it is ready",
  draining: "The server is shutting down. Your message is sent when it is back",
  offline: "The server cannot be reached. Your message is sent when it is back",
  locked: "The server requires an API key",
};

function Waiting({ text }: { text: string }) {
  return (
    <span class="waiting">
      <span class="dots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      {text}
    </span>
  );
}

function Prefill({ total, done }: { total: number; done: number }) {
  return (
    <span class="waiting">
      <progress aria-label="Prompt progress" max={total} value={done} />
      Processing the prompt: {count(done)} of {count(total)} tokens
    </span>
  );
}
