/** What is going on before a reply is written. */
import { connection, load } from "../state/connection.ts";
import type { Phase } from "../state/written.ts";
import { count } from "./StatsLine.tsx";

export function PhaseLine({ phase }: { phase: Phase }) {
  switch (phase.kind) {
    case "asking":
      return <Waiting text={asking(load.value.waiting)} />;
    case "queued":
      return <Waiting text={`The queue is full. Asking again in ${phase.seconds} s`} />;
    case "away":
      return <Waiting text={AWAY[connection.value] ?? "Waiting for the server"} />;
    case "reading":
      return <Reading total={phase.progress.total} done={phase.progress.processed} />;
    case "writing":
      // Below a text that grows, anything would jump: the speed stands at the composer.
      return null;
  }
}

function asking(waiting: number): string {
  if (!waiting) return "Waiting for the server";
  return `Waiting for a place: ${waiting === 1 ? "one reply waits" : `${count(waiting)} replies wait`}`;
}

const AWAY: Record<string, string> = {
  loading: "The model is being loaded. Your message is sent when it is there",
  draining: "The server is stopping. Your message is sent when it is back",
  offline: "The server cannot be reached. Your message is sent when it is back",
  locked: "The server wants a key",
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

function Reading({ total, done }: { total: number; done: number }) {
  return (
    <span class="waiting">
      <progress aria-label="Prompt read" max={total} value={done} />
      Reading the prompt: {count(done)} of {count(total)} tokens
    </span>
  );
}
