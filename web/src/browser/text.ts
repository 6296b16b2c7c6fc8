/** Reads files that users choose. Errors say what is wrong with a file. */
import { pdfText } from "../pdf/text.ts";

/** A request must fit into the server's limit for bodies, 4 MiB by default. */
export const MAX_FILE_BYTES = 1_000_000;

/** Most of a PDF file is not text. */
const MAX_PDF_BYTES = 20_000_000;

export async function readText(file: File): Promise<string> {
  const isPdf = startsWith(new Uint8Array(await file.slice(0, 8).arrayBuffer()), "%PDF-");
  const most = isPdf ? MAX_PDF_BYTES : MAX_FILE_BYTES;
  if (file.size > most) {
    throw new Error(`larger than ${most / 1e6} MB (${(file.size / 1e6).toFixed(1)} MB)`);
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const text = isPdf ? await readPdf(bytes) : decode(bytes);
  if (!text.trim()) throw new Error("the file is empty");
  return text;
}

async function readPdf(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const text = await pdfText(bytes);
  if (text.length > MAX_FILE_BYTES)
    throw new Error(`its text is larger than ${MAX_FILE_BYTES / 1e6} MB`);
  return text;
}

/** Decodes UTF-8, or UTF-16 with a byte order mark. */
export function decode(bytes: Uint8Array): string {
  const encoding = UTF16[`${bytes[0]} ${bytes[1]}`] ?? "utf-8";
  let text: string;
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    throw new Error("not a text file (neither UTF-8 nor UTF-16)");
  }
  if (text.includes("\0")) throw new Error("not a text file (it contains NUL bytes)");
  return text.replace(/\r\n?/g, "\n");
}

const UTF16: Record<string, string> = { "255 254": "utf-16le", "254 255": "utf-16be" };

const startsWith = (bytes: Uint8Array, text: string): boolean =>
  [...text].every((character, at) => bytes[at] === character.charCodeAt(0));
