/** The text of a PDF file: the strings that its pages show, with line breaks where they move down. */
import { PdfFile, latin1, nameOf } from "./file.ts";
import { type Decode, decoderOf } from "./fonts.ts";
import { type Dict, Name, PdfError, Reader, type Value, Word } from "./values.ts";

/** Movements inside of a line, in thousandths of the font size, that stand for a space. */
const SPACE = 180;
/** Forms inside of forms. */
const MAX_FORMS = 8;

/** Returns the text of all pages. Throws `PdfError` if there is none. */
export async function pdfText(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const file = await PdfFile.open(bytes);
  const pages: string[] = [];
  for (const page of file.pages()) pages.push(await pageText(file, page));
  const text = pages.filter(Boolean).join("\n\n");
  if (!text) throw new PdfError("the PDF has no text that can be extracted: it may be a scan");
  return text;
}

async function pageText(file: PdfFile, page: Dict): Promise<string> {
  const contents = page.get("Contents");
  const parts = file.list(contents);
  const streams: string[] = [];
  for (const part of parts.length ? parts : [contents])
    streams.push(latin1(await file.stream(part)));
  const writer = new Lines();
  await show(file, streams.join("\n"), file.dict(page.get("Resources")), writer, 0);
  return writer.text();
}

/** Collects shown strings in lines. */
class Lines {
  private lines: string[] = [""];
  private y = 0;

  add(text: string): void {
    this.lines[this.lines.length - 1] += text;
  }

  /** Moves to a position; one that is lower or higher begins another line. */
  moveTo(y: number): void {
    if (Math.abs(y - this.y) > 1) this.breakLine();
    else this.space();
    this.y = y;
  }

  breakLine(): void {
    if (this.lines.at(-1)) this.lines.push("");
  }

  space(): void {
    const line = this.lines.at(-1)!;
    if (line && !/\s$/.test(line)) this.add(" ");
  }

  text(): string {
    const clean = this.lines.map((line) => line.replace(/\s+/g, " ").trim());
    return clean.filter(Boolean).join("\n");
  }
}

/** Runs the text operators of a content stream. */
async function show(
  file: PdfFile,
  content: string,
  resources: Dict,
  lines: Lines,
  depth: number,
): Promise<void> {
  const fonts = file.dict(resources.get("Font"));
  const decoders = new Map<string, Decode>();
  let decode: Decode = (bytes) => bytes;
  let [y, leading] = [0, 0];
  const reader = new Reader(content);
  let operands: Value[] = [];
  const number = (at: number) => (typeof operands[at] === "number" ? operands[at] : 0);
  const down = (by: number) => lines.moveTo((y += by));
  for (let value = reader.next(); value !== undefined; value = reader.next()) {
    if (!(value instanceof Word)) {
      operands.push(value);
      continue;
    }
    const last = operands.at(-1);
    switch (value.text) {
      case "Tf": {
        const name = nameOf(operands[0]);
        if (!decoders.has(name))
          decoders.set(name, await decoderOf(file, file.dict(fonts.get(name))));
        decode = decoders.get(name)!;
        break;
      }
      case "TL":
        leading = number(0);
        break;
      case "TD":
        leading = -number(1);
        down(number(1));
        break;
      case "Td":
        down(number(1));
        break;
      case "Tm":
        lines.moveTo((y = number(5)));
        break;
      case "T*":
        down(-leading || -1e6);
        break;
      case "'":
      case '"':
        down(-leading || -1e6);
        if (typeof last === "string") lines.add(decode(last));
        break;
      case "Tj":
        if (typeof last === "string") lines.add(decode(last));
        break;
      case "TJ":
        for (const part of Array.isArray(last) ? last : []) {
          if (typeof part === "string") lines.add(decode(part));
          else if (typeof part === "number" && part < -SPACE) lines.space();
        }
        break;
      case "ET":
        lines.space();
        break;
      case "ID":
        // The bytes of an image are no operators.
        reader.at = endOfImage(content, reader.at);
        break;
      case "Do":
        if (depth < MAX_FORMS) await showForm(file, resources, last, lines, depth);
        break;
    }
    operands = [];
  }
}

function endOfImage(content: string, start: number): number {
  const end = /\sEI(?=\s|$)/g;
  end.lastIndex = start;
  return end.exec(content) ? end.lastIndex : content.length;
}

async function showForm(
  file: PdfFile,
  resources: Dict,
  name: Value | undefined,
  lines: Lines,
  depth: number,
): Promise<void> {
  const reference = name instanceof Name && file.dict(resources.get("XObject")).get(name.name);
  const form = file.dict(reference || null);
  if (!reference || nameOf(file.get(form.get("Subtype"))) !== "Form") return;
  const own = form.has("Resources") ? file.dict(form.get("Resources")) : resources;
  await show(file, latin1(await file.stream(reference)), own, lines, depth + 1);
}
