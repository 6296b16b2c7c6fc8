/** Objects and streams of a PDF file. They are found by their headers, not by the index, which is often damaged. */
import { type Dict, Name, PdfError, Reader, Ref, type Value } from "./values.ts";

/** Bytes of all streams after decompression: more is not text. */
const MAX_STREAM_BYTES = 100e6;

interface Found {
  value: Value;
  /** Position of the stream's first byte, if the object is one. */
  stream?: number;
}

export class PdfFile {
  private readonly objects = new Map<number, Found>();
  private left = MAX_STREAM_BYTES;

  private constructor(
    private readonly bytes: Uint8Array<ArrayBuffer>,
    private readonly text: string,
  ) {}

  /** Finds all objects of a file. */
  static async open(bytes: Uint8Array<ArrayBuffer>): Promise<PdfFile> {
    // Each byte becomes one character.
    const text = new TextDecoder("latin1").decode(bytes);
    const file = new PdfFile(bytes, bytesAsText(bytes, text));
    if (/\/Encrypt\s+\d+\s+\d+\s+R|\/Encrypt\s*<</.test(file.text)) {
      throw new PdfError("the PDF is encrypted: save it without a password first");
    }
    file.findObjects();
    await file.findPacked();
    return file;
  }

  private findObjects(): void {
    for (const match of this.text.matchAll(/(?<!\d)(\d{1,10})\s+\d+\s+obj\b/g)) {
      const reader = new Reader(this.text, match.index + match[0].length);
      const value = reader.next() ?? null;
      const start = /^\s*stream(\r\n|\n|\r)/.exec(this.text.slice(reader.at, reader.at + 40));
      // Later versions of an object replace earlier ones.
      this.objects.set(Number(match[1]), {
        value,
        ...(start && { stream: reader.at + start[0].length }),
      });
    }
  }

  /** Adds the objects inside of object streams. */
  private async findPacked(): Promise<void> {
    for (const [number, { value }] of [...this.objects]) {
      if (!(value instanceof Map) || nameOf(value.get("Type")) !== "ObjStm") continue;
      const text = latin1(await this.stream(number));
      const [count, first] = [this.number(value.get("N")), this.number(value.get("First"))];
      const head = new Reader(text);
      for (let at = 0; at < count; at += 1) {
        const [id, offset] = [head.next(), head.next()];
        if (typeof id !== "number" || typeof offset !== "number") break;
        const packed = new Reader(text, first + offset).next() ?? null;
        if (!this.objects.has(id)) this.objects.set(id, { value: packed });
      }
    }
  }

  /** Returns the value that a reference stands for. */
  get(value: Value | undefined): Value {
    for (let step = 0; value instanceof Ref && step < 10; step += 1) {
      value = this.objects.get(value.number)?.value;
    }
    return value instanceof Ref ? null : (value ?? null);
  }

  dict(value: Value | undefined): Dict {
    const found = this.get(value);
    return found instanceof Map ? found : new Map();
  }

  number(value: Value | undefined): number {
    const found = this.get(value);
    return typeof found === "number" ? found : 0;
  }

  list(value: Value | undefined): Value[] {
    const found = this.get(value);
    return Array.isArray(found) ? found : [];
  }

  /** Returns the pages in their order. */
  pages(): Dict[] {
    const all = [...this.objects.values()].map(({ value }) => value);
    const ofType = (type: string) => (value: Value) =>
      value instanceof Map && nameOf(this.get(value.get("Type"))) === type;
    const root = this.dict(all.findLast(ofType("Catalog")) ?? null);
    const pages: Dict[] = [];
    this.addPages(root.get("Pages"), new Map(), pages, new Set());
    return pages.length ? pages : (all.filter(ofType("Page")) as Dict[]);
  }

  private addPages(node: Value | undefined, above: Dict, pages: Dict[], seen: Set<Value>): void {
    const dict = this.dict(node);
    if (seen.has(dict) || !dict.size) return;
    seen.add(dict);
    const resources = dict.get("Resources") ?? above.get("Resources") ?? null;
    const own: Dict = new Map([...dict, ["Resources", resources]]);
    const kids = this.list(dict.get("Kids"));
    if (!kids.length && dict.has("Contents")) pages.push(own);
    for (const kid of kids) this.addPages(kid, own, pages, seen);
  }

  /** Returns the bytes of a stream, decompressed; empty if it is compressed in another way than by Flate. */
  async stream(reference: Value | number | undefined): Promise<Uint8Array> {
    const number = reference instanceof Ref ? reference.number : reference;
    const found = typeof number === "number" ? this.objects.get(number) : undefined;
    if (!found || found.stream === undefined || !(found.value instanceof Map))
      return new Uint8Array();
    const dict = found.value;
    const end = this.endOf(found.stream, this.number(dict.get("Length")));
    const raw = this.bytes.subarray(found.stream, end);
    const filter = this.get(dict.get("Filter"));
    const filters = (Array.isArray(filter) ? filter : filter ? [filter] : []).map((one) =>
      nameOf(this.get(one)),
    );
    if (!filters.length) return raw;
    return filters.every((name) => name === "FlateDecode" || name === "Fl") && filters.length === 1
      ? this.inflate(raw)
      : new Uint8Array();
  }

  /** Returns the end of a stream. Its length may be wrong. */
  private endOf(start: number, length: number): number {
    const isRight = /^\s*endstream/.test(this.text.slice(start + length, start + length + 20));
    if (length && isRight) return start + length;
    const end = this.text.indexOf("endstream", start);
    return end < 0 ? this.bytes.length : end;
  }

  /** Decompresses bytes. What comes before damage counts. */
  private async inflate(raw: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
    const reader = new Blob([raw])
      .stream()
      .pipeThrough(new DecompressionStream("deflate"))
      .getReader();
    const parts: Uint8Array[] = [];
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        this.left -= value.length;
        if (this.left < 0) throw new PdfError("its streams are too large");
        parts.push(value);
      }
    } catch (error) {
      if (error instanceof PdfError) throw error;
    }
    const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}

export const nameOf = (value: Value | undefined): string =>
  value instanceof Name ? value.name : "";

/** Returns a text of which each character is a byte. */
export function latin1(bytes: Uint8Array): string {
  return bytesAsText(bytes, new TextDecoder("latin1").decode(bytes));
}

/** Browsers decode latin1 as windows-1252, whose bytes 128 to 159 are other characters: those are put right. */
function bytesAsText(bytes: Uint8Array, decoded: string): string {
  return decoded.replace(/[^\0-\x7f\xa0-\xff]/g, (_, at: number) =>
    String.fromCharCode(bytes[at]!),
  );
}
