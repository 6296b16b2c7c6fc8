/** One prompt, two settings: both responses side by side, with their speeds. */
import { useState } from "preact/hooks";
import {
  type Result,
  changeSide,
  compare,
  isComparing,
  results,
  sides,
  stopComparison,
} from "../state/compare.ts";
import { chosenModel, models, props } from "../state/models.ts";
import { numberFields } from "../state/settings.ts";
import { DecodeSettings } from "./DecodeSettings.tsx";
import { IconButton } from "./IconButton.tsx";
import { Markdown } from "./Markdown.tsx";
import { ModelSelect } from "./ModelSelect.tsx";
import { NumberInput } from "./NumberInput.tsx";
import { StatsLine } from "./StatsLine.tsx";
import { ThinkingView } from "./ThinkingView.tsx";
import { Send, Stop } from "./icons.tsx";
import { latency, rate } from "./units.ts";

const NAMES = ["A", "B"];

export function CompareView() {
  return (
    <>
      <div class="scroller" tabIndex={0} role="region" aria-label="Comparison">
        <div class="compare">
          {NAMES.map((name, at) => (
            <section class="compare-side" key={name} aria-label={`Settings ${name}`}>
              <h2>{name}</h2>
              <SideSettings at={at} />
              <ResultView result={results.value[at]} />
            </section>
          ))}
        </div>
      </div>
      <div class="foot">
        <Prompt />
      </div>
    </>
  );
}

/** Shown at once; the others unfold. */
const MAIN_FIELDS = new Set(["temperature"]);

function SideSettings({ at }: { at: number }) {
  const { numbers, decoding, model = chosenModel.value } = sides.value[at]!;
  if (!props.value) return <p class="quiet">Waiting for the server.</p>;
  const input = (field: ReturnType<typeof numberFields>[number]) => (
    <NumberInput
      key={field.name}
      field={field}
      numbers={numbers}
      onChange={(numbers) => changeSide(at, { numbers })}
    />
  );
  const fields = numberFields(props.value);
  const isMain = ({ name }: { name: string }) => MAIN_FIELDS.has(name);
  const others = fields.filter((field) => !isMain(field));
  const changed = others.filter(({ name }) => numbers[name] !== undefined).length;
  return (
    <div class="form">
      {models.value.length > 0 && (
        <label class="field">
          <span>Model</span>
          <ModelSelect value={model} onChange={(model) => changeSide(at, { model })} />
        </label>
      )}
      <DecodeSettings decoding={decoding} onChange={(decoding) => changeSide(at, { decoding })} />
      {fields.filter(isMain).map(input)}
      <details>
        <summary>Other sampling settings{changed > 0 && ` (${changed} set)`}</summary>
        <div class="numbers">{others.map(input)}</div>
      </details>
    </div>
  );
}

const STATES: Record<Result["state"], string> = {
  waiting: "Waiting for the other response",
  running: "Generating",
  done: "",
  stopped: "Stopped.",
  failed: "",
};

function ResultView({ result }: { result: Result | undefined }) {
  if (!result) return null;
  const { state, text, block, thinking, stats, problem } = result;
  const isRunning = state === "running";
  return (
    <article class="message assistant result" aria-label="Response" aria-busy={isRunning}>
      <Speeds result={result} />
      {thinking && <ThinkingView thinking={thinking} isThinking={isRunning && !text} />}
      <Markdown text={text} block={block} isFinal={!isRunning} />
      {STATES[state] && <p class="ending">{STATES[state]}</p>}
      {problem && (
        <p class="ending problem" role="alert">
          The response was interrupted: {problem}.
        </p>
      )}
      {stats && !isRunning && (
        <footer class="actions">
          <StatsLine stats={stats} />
        </footer>
      )}
    </article>
  );
}

/** The numbers that a comparison is about. */
function Speeds({ result: { stats, firstTokenMs } }: { result: Result }) {
  return (
    <dl class="speeds">
      <div>
        <dt>Tokens per second</dt>
        <dd>{stats?.replyPerSecond ? rate(stats.replyPerSecond) : "–"}</dd>
      </div>
      <div>
        <dt>Time to first token</dt>
        <dd>{firstTokenMs ? latency(firstTokenMs) : "–"}</dd>
      </div>
    </dl>
  );
}

function Prompt() {
  const [text, setText] = useState("");
  const run = () => void compare(text);
  return (
    <>
      <form
        class="composer"
        onSubmit={(event) => {
          event.preventDefault();
          run();
        }}
      >
        <textarea
          id="composer"
          class="grows"
          rows={1}
          dir="auto"
          placeholder="Write a prompt for both"
          aria-label="Prompt"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.isComposing || event.key !== "Enter" || event.shiftKey) return;
            event.preventDefault();
            run();
          }}
        />
        {isComparing.value ? (
          <IconButton kind="main" label="Stop" onClick={stopComparison}>
            <Stop />
          </IconButton>
        ) : (
          <IconButton kind="main" label="Compare both" disabled={!text.trim()} onClick={run}>
            <Send />
          </IconButton>
        )}
      </form>
      <p class="note">One after the other, without the prefix cache.</p>
    </>
  );
}
