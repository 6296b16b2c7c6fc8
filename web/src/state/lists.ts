/** Parses lists of tokens that the user types. Returns undefined for invalid text. */

export function tokensOf(text: string): number[] | undefined {
  const words = text.split(/[\s,]+/).filter(Boolean);
  if (!words.every((word) => /^\d{1,9}$/.test(word))) return undefined;
  return words.map(Number);
}

interface Bounds {
  min?: number | null | undefined;
  max?: number | null | undefined;
}

/** Parses one `token: bias` pair per line. Each bias must lie within the bounds, if there are any. */
export function biasOf(text: string, { min, max }: Bounds): Record<string, number> | undefined {
  const biases: Record<string, number> = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const [, token, digits] = /^\s*(\d+)\s*[:=]\s*(-?\d+(?:\.\d+)?)\s*$/.exec(line) ?? [];
    const bias = Number(digits);
    if (!token || !digits || bias < (min ?? -Infinity) || bias > (max ?? Infinity))
      return undefined;
    biases[token] = bias;
  }
  return biases;
}
