/** Splits TeX into tokens. */

export class NotUnderstood extends Error {}

/** Reads the tokens of a formula: commands with their backslash, and single characters. */
export class Tokens {
  private at = 0;

  constructor(private readonly source: string) {}

  /** Returns the next token without taking it; empty at the end. */
  peek(): string {
    this.skipSpace();
    return this.tokenAt(this.at);
  }

  next(): string {
    const token = this.peek();
    this.at += token.length;
    return token;
  }

  /** Takes the next token if it is this one. */
  take(token: string): boolean {
    if (this.peek() !== token) return false;
    this.next();
    return true;
  }

  expect(token: string): void {
    if (!this.take(token)) throw new NotUnderstood(`expected ${token}`);
  }

  /** Takes the text between braces as it is written. Braces inside must match. */
  raw(): string {
    this.expect("{");
    const start = this.at;
    for (let depth = 1; this.at < this.source.length; this.at += 1) {
      const character = this.source[this.at];
      if (character === "\\") this.at += 1;
      else if (character === "{") depth += 1;
      else if (character === "}") depth -= 1;
      if (depth === 0) return this.source.slice(start, this.at++);
    }
    throw new NotUnderstood("a brace is not closed");
  }

  /** Takes digits that follow each other, with points and commas between them. */
  number(): string {
    this.skipSpace();
    const digits =
      /^\d+(?:[.,]\d+)*|^\.\d+/.exec(this.source.slice(this.at, this.at + 100))?.[0] ?? "";
    this.at += digits.length;
    return digits;
  }

  private skipSpace(): void {
    // A comment ends with its line.
    while (/[\s%]/.test(this.source[this.at] ?? "")) {
      if (this.source[this.at] !== "%") this.at += 1;
      else this.at = this.source.indexOf("\n", this.at) + 1 || this.source.length;
    }
  }

  private tokenAt(at: number): string {
    const first = this.source[at] ?? "";
    if (first !== "\\")
      return String.fromCodePoint(...[this.source.codePointAt(at)].flatMap((code) => code ?? []));
    const name = /^\\(?:[a-zA-Z]+|[\s\S])/.exec(this.source.slice(at, at + 40))?.[0];
    if (!name) throw new NotUnderstood("a backslash at the end");
    return name;
  }
}
