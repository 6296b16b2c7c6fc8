/** What the server is and does, measured once a second. */
import { useEffect } from "preact/hooks";
import type { Sample, Totals } from "../api/metrics.ts";
import type { Props } from "../api/wire.ts";
import { props } from "../state/connection.ts";
import { ROOM, isOff, measure, samples } from "../state/samples.ts";
import { Plot } from "./Plot.tsx";
import { count, rate } from "./StatsLine.tsx";

/** Tokens of K and V in a page. */
const PAGE_TOKENS = 32;

export function ServerView() {
  useEffect(measure, []);
  const facts = props.value;
  const totals = samples.value.at(-1)?.totals;
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="The server">
      <div class="server">
        <h1>{facts?.model_names[0] ?? "Server"}</h1>
        {isOff.value ? (
          <p class="quiet">This server does not tell its metrics (--no-metrics).</p>
        ) : (
          <Plots samples={samples.value} props={facts} />
        )}
        {totals && !isOff.value && <SinceStart totals={totals} />}
        {facts && <Facts props={facts} />}
      </div>
    </div>
  );
}

function Plots({ samples, props }: { samples: Sample[]; props: Props | null }) {
  const pages = props ? Math.floor(props.kv_tokens / PAGE_TOKENS) : 0;
  const perSecond = (value: number) => `${rate(value)}/s`;
  const ofPages = (value: number) => (pages ? `${count(value)} of ${count(pages)}` : count(value));
  const plots: [label: string, pick: (sample: Sample) => number, show: (n: number) => string][] = [
    ["Reply tokens", (sample) => sample.replyTokensPerSecond, perSecond],
    ["Prompt tokens", (sample) => sample.promptTokensPerSecond, perSecond],
    ["Replies running", (sample) => sample.running, count],
    ["Replies waiting", (sample) => sample.waiting, count],
    ["K/V pages in use", (sample) => sample.pagesInUse, ofPages],
    ["K/V pages kept", (sample) => sample.pagesKept, ofPages],
  ];
  return (
    <div class="plots">
      {plots.map(([label, pick, show]) => (
        <Plot key={label} label={label} values={samples.map(pick)} room={ROOM} show={show} />
      ))}
    </div>
  );
}

function SinceStart({ totals }: { totals: Totals }) {
  const found = totals.cacheQueries ? totals.cacheHits / totals.cacheQueries : 0;
  return (
    <>
      <h2>Since the start</h2>
      <dl class="facts">
        <Fact name="Replies" value={count(totals.requests)} />
        <Fact name="Reply tokens" value={count(totals.replyTokens)} />
        <Fact name="Prompt tokens" value={count(totals.promptTokens)} />
        <Fact name="Found in the prefix cache" value={`${(found * 100).toFixed(1)}%`} />
        <Fact name="Replies that gave pages up" value={count(totals.preemptions)} />
      </dl>
    </>
  );
}

function Facts({ props }: { props: Props }) {
  const context = props.default_generation_settings.n_ctx;
  return (
    <>
      <h2>Model</h2>
      <dl class="facts">
        <Fact name="Architecture" value={props.architecture} />
        <Fact name="Context" value={`${count(context)} tokens`} />
        <Fact name="Instructions" value={`${props.isa}, ${props.threads} threads`} />
        <Fact name="Keys and values" value={`${props.kv}, ${count(props.kv_tokens)} tokens`} />
        <Fact name="Replies at once" value={count(props.total_slots)} />
        <Fact name="File" value={props.model_path} />
        <Fact name="Fingerprint" value={props.system_fingerprint} />
        <Fact name="Program" value={props.build_info} />
      </dl>
    </>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
