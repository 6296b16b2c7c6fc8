/** What is going on before and while a reply is written. */
import { connection } from "../state/connection.ts";
import type { Phase } from "../state/run.ts";
import { count, rate } from "./StatsLine.tsx";

export function PhaseLine({ phase }: { phase: Phase }) {
  switch (phase.kind) {
    case "asking":
      return <Waiting text="Waiting for the server" />;
    case "queued":
      return <Waiting text={`The queue is full. Asking again in ${phase.seconds} s`} />;
    case "away":
      return <Waiting text={AWAY[connection.value] ?? "Waiting for the server"} />;
    case "reading":
      return <Reading total={phase.progress.total} done={phase.progress.processed} />;
    case "writing":
      return <span class="stats">{phase.perSecond > 0 && `${rate(phase.perSecond)} tok/s`}</span>;
  }
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
