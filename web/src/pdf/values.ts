/** Values of PDF files, and a reader of them. Files are untrusted: nothing here throws but `PdfError`, and all ends. */

export class PdfError extends Error {}

export class Name {
  constructor(readonly name: string) {}
}

/** Reference to an object by its number. */
export class Ref {
  constructor(readonly number: number) {}
}

/** Word that is none of the other values: an operator of a content stream, or a part of the file's structure. */
export class Word {
  constructor(readonly text: string) {}
}

export type Dict = Map<string, Value>;
/** Strings are bytes, one per character. */
export type Value = null | boolean | number | string | Name | Ref | Word | Value[] | Dict;

const MAX_DEPTH = 50;
const SPACE = new Set("\0\t\n\f\r ");
const DELIMITERS = new Set("()<>[]{}/%");
const ESCAPES: Record<string, string> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };

/** Reads values from a text of which each character is a byte. */
export class Reader {
  constructor(
    readonly text: string,
    public at = 0,
  ) {}

  /** Returns the next value, or undefined at the end. */
  next(depth = 0): Value | undefined {
    this.skipSpace();
    const character = this.text[this.at];
    if (character === undefined) return undefined;
    if (depth > MAX_DEPTH) throw new PdfError("it is nested too deeply");
    switch (character) {
      case "/":
        this.at += 1;
        return new Name(
          this.word().replace(/#([\da-f]{2})/gi, (_, hex) => char(parseInt(hex, 16))),
        );
      case "(":
        return this.string();
      case "[":
        return this.list("]", depth);
      case "<":
        if (this.text[this.at + 1] !== "<") return this.hex();
        this.at += 1;
        return this.dict(depth);
      case ")":
      case "]":
      case ">":
      case "{":
      case "}":
        this.at += 1;
        return new Word(character);
      default:
        return this.plain();
    }
  }

  private skipSpace(): void {
    for (; this.at < this.text.length; this.at += 1) {
      const character = this.text[this.at]!;
      if (character === "%") while (!"\r\n".includes(this.text[this.at] ?? "\n")) this.at += 1;
      else if (!SPACE.has(character)) return;
    }
  }

  private word(): string {
    const start = this.at;
    while (this.at < this.text.length) {
      const character = this.text[this.at]!;
      if (SPACE.has(character) || DELIMITERS.has(character)) break;
      this.at += 1;
    }
    return this.text.slice(start, this.at);
  }

  /** Reads a number, a reference or a word. */
  private plain(): Value {
    const word = this.word();
    if (word === "true" || word === "false") return word === "true";
    if (word === "null") return null;
    if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(word)) return new Word(word);
    const reference = /^\s+\d+\s+R(?![^\s()<>[\]{}/%])/.exec(
      this.text.slice(this.at, this.at + 20),
    );
    if (!reference || !/^\d+$/.test(word)) return Number(word);
    this.at += reference[0].length;
    return new Ref(Number(word));
  }

  private list(end: string, depth: number): Value[] {
    this.at += 1;
    const values: Value[] = [];
    for (;;) {
      const value = this.next(depth + 1);
      if (value === undefined || (value instanceof Word && value.text === end)) return values;
      values.push(value);
    }
  }

  private dict(depth: number): Dict {
    const values = this.list(">", depth);
    // The second of two brackets.
    if (this.text[this.at] === ">") this.at += 1;
    const dict: Dict = new Map();
    for (let at = 0; at + 1 < values.length; at += 2) {
      const name = values[at];
      if (name instanceof Name) dict.set(name.name, values[at + 1]!);
    }
    return dict;
  }

  private hex(): string {
    const end = this.text.indexOf(">", this.at);
    const digits = this.text
      .slice(this.at + 1, end < 0 ? undefined : end)
      .replace(/[^\da-f]/gi, "");
    this.at = end < 0 ? this.text.length : end + 1;
    const pairs = (digits.length % 2 ? `${digits}0` : digits).match(/../g) ?? [];
    return pairs.map((pair) => char(parseInt(pair, 16))).join("");
  }

  private string(): string {
    const parts: string[] = [];
    let open = 0;
    while (this.at < this.text.length) {
      const character = this.text[this.at++]!;
      if (character === "\\") {
        parts.push(this.escape());
        continue;
      }
      if (character === "(" && open++ === 0) continue;
      if (character === ")" && --open === 0) break;
      parts.push(character);
    }
    return parts.join("");
  }

  private escape(): string {
    const octal = /^[0-7]{1,3}/.exec(this.text.slice(this.at, this.at + 3));
    if (octal) {
      this.at += octal[0].length;
      return char(parseInt(octal[0], 8) & 255);
    }
    const character = this.text[this.at++] ?? "";
    // A line break after a backslash is none.
    if (character === "\r" && this.text[this.at] === "\n") this.at += 1;
    return "\r\n".includes(character) ? "" : (ESCAPES[character] ?? character);
  }
}

const char = (code: number): string => String.fromCharCode(code);
