/** Percentiles and labels in the text of `/metrics`. */

/** Cumulative counts by upper bound, in the order of the text. */
type Buckets = [bound: number, count: number][];

/** Reads the buckets of a histogram without labels. */
export function bucketsOf(text: string, name: string): Buckets {
  const buckets: Buckets = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${name}_bucket{`)) continue;
    const [, bound = "", count = ""] = /le="([^"]+)"\} (\S+)/.exec(line) ?? [];
    buckets.push([bound === "+Inf" ? Infinity : Number(bound), Number(count)]);
  }
  return buckets;
}

/**
 * Estimates a quantile as Prometheus does: values are spread evenly over their bucket. Undefined without values; the
 * last finite bound if it lies above.
 */
export function quantile(buckets: Buckets, share: number): number | undefined {
  const total = buckets.at(-1)?.[1] ?? 0;
  if (!total) return undefined;
  const rank = share * total;
  let [lower, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= rank && count > below) {
      return bound === Infinity
        ? lower
        : lower + ((bound - lower) * (rank - below)) / (count - below);
    }
    [lower, below] = [bound, count];
  }
  return lower;
}

/** Sums a counter by the value of one of its labels. */
export function byLabel(text: string, name: string, label: string): Map<string, number> {
  const sums = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${name}{`)) continue;
    const value = new RegExp(`[{,]${label}="([^"]*)"`).exec(line)?.[1];
    const count = Number(/.*\} (\S+)/.exec(line)?.[1]);
    if (value !== undefined && count > 0) sums.set(value, (sums.get(value) ?? 0) + count);
  }
  return sums;
}
