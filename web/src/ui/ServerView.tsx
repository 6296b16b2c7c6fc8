/** Metrics of the server, now and in the last hour, and facts about the model. */
import { useEffect, useState } from "preact/hooks";
import type { Percentiles, Sample, Totals } from "../api/metrics.ts";
import type { Props } from "../api/wire.ts";
import { props } from "../state/models.ts";
import { isOff, measure, past, samples } from "../state/samples.ts";
import { Plot } from "./Plot.tsx";
import { count, latency, rate } from "./units.ts";

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
          <Plots props={facts} />
        )}
        {totals && !isOff.value && <SinceStart totals={totals} />}
        {facts && <Facts props={facts} />}
      </div>
    </div>
  );
}

const MINUTE_MS = 60_000;
const SPANS: [label: string, span: number][] = [
  ["Last hour", 60 * MINUTE_MS],
  ["Last 2 minutes", 2 * MINUTE_MS],
];

function Plots({ props }: { props: Props | null }) {
  const [chosen, setChosen] = useState(60 * MINUTE_MS);
  const hasPast = past.value.length > 0;
  const span = hasPast ? chosen : 2 * MINUTE_MS;
  const shown = span > 2 * MINUTE_MS ? lastHour() : samples.value;
  return (
    <>
      {hasPast && (
        <div class="tabs spans" role="group" aria-label="Time span">
          {SPANS.map(([label, one]) => (
            <button
              type="button"
              class="tab"
              key={label}
              aria-pressed={span === one}
              onClick={() => setChosen(one)}
            >
              {label}
            </button>
          ))}
        </div>
      )}
      <div class="plots">
        {plotsOf(props).map(([label, pick, show]) => (
          <Plot
            key={label}
            label={label}
            points={shown.map((sample) => ({ time: sample.time, value: pick(sample) }))}
            span={span}
            show={show}
          />
        ))}
      </div>
    </>
  );
}

/** Returns the samples of the server, and the newest one of the page. */
function lastHour(): Sample[] {
  const now = samples.value.at(-1);
  return now ? [...past.value, now] : past.value;
}

type PlotRow = [label: string, pick: (sample: Sample) => number, show: (value: number) => string];

function plotsOf(props: Props | null): PlotRow[] {
  const pages = props ? Math.floor(props.kv_tokens / PAGE_TOKENS) : 0;
  const perSecond = (value: number) => `${rate(value)}/s`;
  const ofPages = (value: number) => (pages ? `${count(value)} of ${count(pages)}` : count(value));
  // The server measures its memory less often than the page asks for the rest.
  const memory = past.value.at(-1)?.residentBytes ?? 0;
  const plots: PlotRow[] = [
    ["Generated tokens", (sample) => sample.replyTokensPerSecond, perSecond],
    ["Prompt tokens", (sample) => sample.promptTokensPerSecond, perSecond],
    ["Running requests", (sample) => sample.running, count],
    ["Waiting requests", (sample) => sample.waiting, count],
    ["K/V pages in use", (sample) => sample.pagesInUse, ofPages],
    ["K/V pages cached", (sample) => sample.pagesCached, ofPages],
  ];
  const ofMemory: PlotRow = ["Memory", (sample) => sample.residentBytes || memory, bytes];
  return memory ? [...plots, ofMemory] : plots;
}

const bytes = (value: number): string =>
  value >= 1e9 ? `${(value / 1e9).toFixed(2)} GB` : `${Math.round(value / 1e6)} MB`;

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
      <h2>Latency</h2>
      <table class="latency">
        <thead>
          <tr>
            <th scope="col">Since startup</th>
            <th scope="col">p50</th>
            <th scope="col">p90</th>
            <th scope="col">p99</th>
          </tr>
        </thead>
        <tbody>
          <LatencyRow name="Time to first token" percentiles={totals.firstToken} />
          <LatencyRow name="Time between tokens" percentiles={totals.betweenTokens} />
        </tbody>
      </table>
      <h2>Refused and failed requests</h2>
      {totals.refusals.length ? (
        <dl class="facts">
          {totals.refusals.map(([status, number]) => (
            <Fact key={status} name={`${status} ${REASONS[status] ?? ""}`} value={count(number)} />
          ))}
        </dl>
      ) : (
        <p class="quiet">None since startup.</p>
      )}
    </>
  );
}

function LatencyRow({ name, percentiles }: { name: string; percentiles: Percentiles }) {
  const show = (seconds: number | undefined) =>
    seconds === undefined ? "–" : latency(seconds * 1000);
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{show(percentiles?.p50)}</td>
      <td>{show(percentiles?.p90)}</td>
      <td>{show(percentiles?.p99)}</td>
    </tr>
  );
}

const REASONS: Record<string, string> = {
  400: "invalid request",
  401: "API key missing or wrong",
  403: "not allowed",
  404: "not found",
  405: "wrong method",
  408: "request not received in time",
  413: "request too large",
  415: "wrong content type",
  422: "invalid request",
  429: "queue full or limit reached",
  500: "internal error",
  503: "loading or shutting down",
  504: "deadline passed",
};

function Facts({ props }: { props: Props }) {
  const context = props.default_generation_settings.n_ctx;
  return (
    <>
      <h2>Model</h2>
      <dl class="facts">
        <Fact name="Architecture" value={props.architecture} />
        <Fact name="Context" value={`${count(context)} tokens`} />
        {props.attention && props.attention.mode !== "dense" && (
          <Fact name="Attention" value={props.attention.mode} />
        )}
        <Fact
          name="Instruction set"
          value={`${props.isa}, ${props.threads} ${props.threads === 1 ? "thread" : "threads"}`}
        />
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
