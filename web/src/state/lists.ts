/** Lists of tokens, as people write them. Nothing stands for a text that is not in its form. */

export function tokensOf(text: string): number[] | undefined {
  const words = text.split(/[\s,]+/).filter(Boolean);
  if (!words.every((word) => /^\d{1,9}$/.test(word))) return undefined;
  return words.map(Number);
}

const MOST = 100;

export function biasOf(text: string): Record<string, number> | undefined {
  const bias: Record<string, number> = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const [, token, add] = /^\s*(\d+)\s*[:=]\s*(-?\d+(?:\.\d+)?)\s*$/.exec(line) ?? [];
    if (!token || !add || Math.abs(Number(add)) > MOST) return undefined;
    bias[token] = Number(add);
  }
  return bias;
}
