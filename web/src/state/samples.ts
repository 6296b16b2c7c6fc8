/** Recent metrics of the server, sampled while the server view is open. */
import { signal } from "@preact/signals";
import { ApiError, send } from "../api/client.ts";
import { type Sample, sampleOf } from "../api/metrics.ts";
import { report } from "./connection.ts";

/** Number of samples kept. */
export const MAX_SAMPLES = 120;
const PERIOD_MS = 1000;

export const samples = signal<Sample[]>([]);
/** True if the server exposes no metrics. */
export const isOff = signal(false);

/** Samples once a second until the returned function is called. */
export function measure(): () => void {
  void sample();
  const timer = setInterval(() => void sample(), PERIOD_MS);
  return () => clearInterval(timer);
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
