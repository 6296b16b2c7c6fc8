/** Metrics of the server: sampled while the server view is open, and its own samples of the last hour. */
import { signal } from "@preact/signals";
import { ApiError, send } from "../api/client.ts";
import { type PastSample, type Sample, pastSamples, sampleOf } from "../api/metrics.ts";
import { report } from "./connection.ts";

/** Number of samples kept. */
const MAX_SAMPLES = 120;
const PERIOD_MS = 1000;
const PAST_PERIOD_MS = 10_000;

export const samples = signal<Sample[]>([]);
/** Samples of the last hour; empty if the server keeps none. */
export const past = signal<Sample[]>([]);
/** True if the server exposes no metrics. */
export const isOff = signal(false);

/** Samples once a second until the returned function is called. */
export function measure(): () => void {
  void sample();
  void readPast();
  const timers = [
    setInterval(() => void sample(), PERIOD_MS),
    setInterval(() => void readPast(), PAST_PERIOD_MS),
  ];
  return () => timers.forEach(clearInterval);
}

async function sample(): Promise<void> {
  if (document.hidden) return;
  try {
    const text = await (await send("/metrics")).text();
    const previous = samples.peek();
    const next = sampleOf(text, performance.now(), previous.at(-1));
    samples.value = [...previous.slice(1 - MAX_SAMPLES), next];
    isOff.value = false;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) isOff.value = true;
    else report(error);
  }
}

async function readPast(): Promise<void> {
  if (document.hidden) return;
  try {
    const body = (await (await send("/history")).json()) as { samples: PastSample[] };
    past.value = pastSamples(body.samples, performance.now());
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) past.value = [];
    else report(error);
  }
}
