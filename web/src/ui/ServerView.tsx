/** Metrics of the server, sampled once a second, and facts about the model. */
import { useEffect } from "preact/hooks";
import type { Sample, Totals } from "../api/metrics.ts";
import type { Props } from "../api/wire.ts";
import { props } from "../state/connection.ts";
import { MAX_SAMPLES, isOff, measure, samples } from "../state/samples.ts";
import { Plot } from "./Plot.tsx";
import { count, rate } from "./StatsLine.tsx";

/** Tokens in a K/V page. */
const PAGE_TOKENS = 32;

export function ServerView() {
  useEffect(measure, []);
  const facts = props.value;
  const totals = samples.value.at(-1)?.totals;
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="Server">
      <div class="server">
        <h1>{facts?.model_names[0] ?? "Server"}</h1>
        {isOff.value ? (
          <p class="quiet">This server does not expose metrics (--no-metrics).</p>
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
    ["Generated tokens", (sample) => sample.replyTokensPerSecond, perSecond],
    ["Prompt tokens", (sample) => sample.promptTokensPerSecond, perSecond],
    ["Running requests", (sample) => sample.running, count],
    ["Waiting requests", (sample) => sample.waiting, count],
    ["K/V pages in use", (sample) => sample.pagesInUse, ofPages],
    ["K/V pages cached", (sample) => sample.pagesCached, ofPages],
  ];
  return (
    <div class="plots">
      {plots.map(([label, pick, show]) => (
        <Plot
          key={label}
          label={label}
          values={samples.map(pick)}
          capacity={MAX_SAMPLES}
          show={show}
        />
      ))}
    </div>
  );
}

function SinceStart({ totals }: { totals: Totals }) {
  const found = totals.cacheQueries ? totals.cacheHits / totals.cacheQueries : 0;
  return (
    <>
      <h2>Since startup</h2>
      <dl class="facts">
        <Fact name="Completed requests" value={count(totals.requests)} />
        <Fact name="Generated tokens" value={count(totals.replyTokens)} />
        <Fact name="Prompt tokens" value={count(totals.promptTokens)} />
        <Fact name="Prefix cache hit rate" value={`${(found * 100).toFixed(1)}%`} />
        <Fact name="Preemptions" value={count(totals.preemptions)} />
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
        <Fact name="Instruction set" value={`${props.isa}, ${props.threads} threads`} />
        <Fact name="K/V cache" value={`${props.kv}, ${count(props.kv_tokens)} tokens`} />
        <Fact name="Request slots" value={count(props.total_slots)} />
        <Fact name="Model file" value={props.model_path} />
        <Fact name="Fingerprint" value={props.system_fingerprint} />
        <Fact name="Version" value={props.build_info} />
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
