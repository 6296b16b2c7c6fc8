/** What the server was doing lately, measured while somebody looks. */
import { signal } from "@preact/signals";
import { Refused, ask } from "../api/client.ts";
import { type Sample, sampleOf } from "../api/metrics.ts";
import { report } from "./connection.ts";

/** How many are kept. */
export const ROOM = 120;
const PERIOD_MS = 1000;

export const samples = signal<Sample[]>([]);
/** Whether the server tells nothing. */
export const isOff = signal(false);

/** Measures once a second, until the function that is returned is called. */
export function measure(): () => void {
  void take();
  const timer = setInterval(() => void take(), PERIOD_MS);
  return () => clearInterval(timer);
}

async function take(): Promise<void> {
  if (document.hidden) return;
  try {
    const text = await (await ask("/metrics")).text();
    const before = samples.peek();
    const sample = sampleOf(text, performance.now(), before.at(-1));
    samples.value = [...before.slice(1 - ROOM), sample];
    isOff.value = false;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) isOff.value = true;
    else report(error);
  }
}
