/** Numbers as the page shows them. */

export const count = (number: number): string => number.toLocaleString("en");

export const rate = (number: number): string =>
  number >= 100 ? Math.round(number).toLocaleString("en") : number.toFixed(1);

/** Shows a latency: 0.8 ms, 320 ms, 1.2 s. */
export function latency(ms: number): string {
  if (ms >= 999.5) return duration(ms);
  return `${ms < 9.95 ? ms.toFixed(1).replace(/\.0$/, "") : Math.round(ms)} ms`;
}

/** Shows a time with the precision that matters: 0.4 s, 12 s, 3 min 5 s. */
export function duration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
