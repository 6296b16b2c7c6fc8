/** The text that the bytes of a string stand for in a font. */
import { type PdfFile, latin1, nameOf } from "./file.ts";
import { type Dict, Reader, type Value, Word } from "./values.ts";

/** Turns the bytes of a string into text. */
export type Decode = (bytes: string) => string;

/** Codes in a range of a CMap beyond which it is damaged. */
const MAX_RANGE = 0x10000;

export async function decoderOf(file: PdfFile, font: Dict): Promise<Decode> {
  const isComposite = nameOf(file.get(font.get("Subtype"))) === "Type0";
  const map = latin1(await file.stream(font.get("ToUnicode")));
  if (map) {
    const { codes, width } = readCMap(map, isComposite ? 2 : 1);
    const simple = isComposite ? () => "" : simpleDecoder(file, font);
    return (bytes) => split(bytes, width, (code) => codes.get(code) ?? simple(code));
  }
  // Without a map, the codes of a composite font are numbers of its glyphs.
  return isComposite ? () => "" : (bytes) => split(bytes, 1, simpleDecoder(file, font));
}

function split(bytes: string, width: number, decode: Decode): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += width) text += decode(bytes.slice(at, at + width));
  return text;
}

/** Reads a map from codes to text: `beginbfchar` and `beginbfrange`. */
export function readCMap(
  text: string,
  defaultWidth: number,
): { codes: Map<string, string>; width: number } {
  const codes = new Map<string, string>();
  const reader = new Reader(text);
  let values: Value[] = [];
  let width = defaultWidth;
  for (let value = reader.next(); value !== undefined; value = reader.next()) {
    if (!(value instanceof Word)) {
      values.push(value);
      continue;
    }
    const strings = values.filter((one) => typeof one === "string" || Array.isArray(one));
    if (value.text === "endcodespacerange" && typeof strings[0] === "string")
      width = strings[0].length || width;
    if (value.text === "endbfchar") addChars(codes, strings);
    if (value.text === "endbfrange") addRanges(codes, strings);
    values = [];
  }
  return { codes, width };
}

function addChars(codes: Map<string, string>, values: Value[]): void {
  for (let at = 0; at + 1 < values.length; at += 2) {
    const [code, target] = [values[at], values[at + 1]];
    if (typeof code === "string" && typeof target === "string") codes.set(code, utf16(target));
  }
}

function addRanges(codes: Map<string, string>, values: Value[]): void {
  for (let at = 0; at + 2 < values.length; at += 3) {
    const [low, high, target] = [values[at], values[at + 1], values[at + 2]];
    if (typeof low !== "string" || typeof high !== "string") continue;
    const [first, last] = [numberOf(low), numberOf(high)];
    for (let code = first; code <= last && code - first < MAX_RANGE; code += 1) {
      const one = Array.isArray(target) ? target[code - first] : target;
      if (typeof one !== "string") break;
      const text = utf16(one);
      const step = Array.isArray(target) ? 0 : code - first;
      const end = (text.codePointAt(text.length - 1) ?? 0) + step;
      codes.set(
        bytesOf(code, low.length),
        text.slice(0, -1) + String.fromCodePoint(Math.min(end, 0x10ffff)),
      );
    }
  }
}

const numberOf = (bytes: string): number =>
  [...bytes].reduce((number, byte) => number * 256 + byte.charCodeAt(0), 0);

function bytesOf(number: number, width: number): string {
  let bytes = "";
  for (let at = 0; at < width; at += 1) {
    bytes = String.fromCharCode(number & 255) + bytes;
    number >>>= 8;
  }
  return bytes;
}

function utf16(bytes: string): string {
  let text = "";
  for (let at = 0; at + 1 < bytes.length; at += 2)
    text += String.fromCharCode(numberOf(bytes.slice(at, at + 2)));
  return text;
}

/** Names of glyphs that are neither a letter nor written as `uni0041`. */
const GLYPHS: Record<string, string> = Object.fromEntries(
  (
    "space:  exclam:! quotedbl:\" numbersign:# dollar:$ percent:% ampersand:& quotesingle:' parenleft:( parenright:) " +
    "asterisk:* plus:+ comma:, hyphen:- minus:− period:. slash:/ zero:0 one:1 two:2 three:3 four:4 five:5 six:6 " +
    "seven:7 eight:8 nine:9 colon:: semicolon:; less:< equal:= greater:> question:? at:@ bracketleft:[ " +
    "backslash:\\ bracketright:] underscore:_ braceleft:{ bar:| braceright:} quoteleft:‘ quoteright:’ quotedblleft:“ " +
    "quotedblright:” endash:– emdash:— bullet:• ellipsis:… fi:fi fl:fl ff:ff ffi:ffi ffl:ffl germandbls:ß " +
    "adieresis:ä odieresis:ö udieresis:ü Adieresis:Ä Odieresis:Ö Udieresis:Ü eacute:é egrave:è agrave:à ccedilla:ç"
  )
    .split(/ (?=\w)/)
    .map((pair) => [pair.slice(0, pair.indexOf(":")), pair.slice(pair.indexOf(":") + 1) || " "]),
);

const WINDOWS = new TextDecoder("windows-1252");
const MAC = new TextDecoder("macintosh");

/** Decodes one byte: by the differences of the font, or else by its base encoding. */
function simpleDecoder(file: PdfFile, font: Dict): Decode {
  const encoding = file.get(font.get("Encoding"));
  const base = nameOf(encoding instanceof Map ? file.get(encoding.get("BaseEncoding")) : encoding);
  const decoder = base === "MacRomanEncoding" ? MAC : WINDOWS;
  const differences = new Map<number, string>();
  let code = 0;
  for (const value of encoding instanceof Map ? file.list(encoding.get("Differences")) : []) {
    if (typeof value === "number") code = value;
    else differences.set(code++, glyph(nameOf(value)));
  }
  return (byte) =>
    differences.get(byte.charCodeAt(0)) ?? decoder.decode(Uint8Array.of(byte.charCodeAt(0)));
}

function glyph(name: string): string {
  if (name.length === 1) return name;
  const hex = /^uni([\da-f]{4})/i.exec(name)?.[1] ?? /^u([\da-f]{4,5})$/i.exec(name)?.[1];
  return hex ? String.fromCodePoint(parseInt(hex, 16)) : (GLYPHS[name.split(".")[0]!] ?? "");
}
