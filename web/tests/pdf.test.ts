import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { readText } from "../src/browser/text.ts";
import { readCMap } from "../src/pdf/fonts.ts";
import { pdfText } from "../src/pdf/text.ts";
import { PdfError } from "../src/pdf/values.ts";

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, "latin1"));

/** Writes objects one after the other, without an index. */
const pdf = (...objects: string[]) =>
  bytesOf(
    `%PDF-1.7\n${objects.map((object, at) => `${at + 1} 0 obj\n${object}\nendobj\n`).join("")}`,
  );

const stream = (text: string, more = "") =>
  `<< /Length ${text.length} ${more}>>\nstream\n${text}\nendstream`;

const packed = (text: string, more = "") =>
  stream(
    deflateSync(Buffer.from(text, "latin1")).toString("latin1"),
    `/Filter /FlateDecode ${more}`,
  );

/** A file with one page of this content and this font. */
const onePage = (content: string, font: string, ...more: string[]) =>
  pdf(
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 5 0 R >> >> >>",
    "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>",
    content,
    font,
    ...more,
  );

const PLAIN = "<< /Type /Font /Subtype /Type1 /BaseFont /Times /Encoding /WinAnsiEncoding >>";

test("strings become lines, and moves inside of a line spaces", async () => {
  const content =
    "BT /F1 12 Tf 72 700 Td (Hello) Tj ( \\(world\\)\\041) Tj 0 -14 Td [(W) 20 (ord) -300 (two)] TJ T* <4142> Tj ET";
  const expected = "Hello (world)!\nWord two\nAB";
  assert.equal(await pdfText(onePage(stream(content), PLAIN)), expected);
  assert.equal(await pdfText(onePage(packed(content), PLAIN)), expected);
});

test("codes are decoded by the map of the font", async () => {
  const map =
    "1 begincodespacerange <0000> <ffff> endcodespacerange 1 beginbfchar <0001> <00480069> endbfchar " +
    "2 beginbfrange <0002> <0004> <0061> <0005> <0006> [<20AC> <D83DDE00>] endbfrange";
  const font = "<< /Type /Font /Subtype /Type0 /ToUnicode 6 0 R >>";
  const content = "BT /F1 1 Tf <000100020003000400050006> Tj ET";
  assert.equal(await pdfText(onePage(packed(content), font, packed(map))), "Hiabc€😀");
  assert.equal(readCMap("1 beginbfrange <00> <ff> <0000> endbfrange", 1).codes.size, 256);
});

test("simple fonts have differences of their encodings", async () => {
  const font =
    "<< /Type /Font /Subtype /Type1 /Encoding << /BaseEncoding /WinAnsiEncoding " +
    "/Differences [1 /fi /uni20AC 65 /B /period] >> >>";
  assert.equal(
    await pdfText(onePage(stream("BT /F1 1 Tf (\\001\\002AB\\344) Tj ET"), font)),
    "fi€B.ä",
  );
});

test("objects may be packed, and forms are a part of their page", async () => {
  const objects = ["<< /Type /Catalog /Pages 11 0 R >>", "<< /Type /Pages /Kids [12 0 R] >>"];
  const page =
    "<< /Type /Page /Contents 2 0 R /Resources << /Font << /F1 4 0 R >> /XObject << /X 3 0 R >> >> >>";
  const all = [...objects, page];
  const offsets = all.map((_, at) => all.slice(0, at).join(" ").length + (at ? 1 : 0));
  const head = offsets.map((offset, at) => `${10 + at} ${offset}`).join(" ");
  const container = packed(
    `${head} ${all.join(" ")}`,
    `/Type /ObjStm /N 3 /First ${head.length + 1} `,
  );
  const file = pdf(
    container,
    packed("BT /F1 1 Tf (above) Tj ET /X Do"),
    stream("BT /F1 1 Tf 0 -20 Td (inside) Tj ET", "/Type /XObject /Subtype /Form "),
    PLAIN,
  );
  assert.equal(await pdfText(file), "above\ninside");
});

test("a file without text is refused with the reason", async () => {
  const scan = onePage(stream("q 1 0 0 1 0 0 cm BI /W 1 ID (Tj) EI Q"), PLAIN);
  await assert.rejects(pdfText(scan), /no text that can be extracted: it may be a scan/);
  const glyphs = onePage(stream("BT /F1 1 Tf <0001> Tj ET"), "<< /Subtype /Type0 >>");
  await assert.rejects(pdfText(glyphs), /no text/);
  await assert.rejects(pdfText(pdf("<< /Encrypt 2 0 R >>")), /encrypted/);
  const file = new File([onePage(stream("BT /F1 1 Tf (x) Tj ET"), PLAIN)], "a.pdf");
  assert.equal(await readText(file), "x");
});

test("no damage does more than lose text", async () => {
  const content = packed("BT /F1 1 Tf (Hello) Tj [(a) [(b)] << /x (c) >>] TJ ET");
  const whole = onePage(content, "<< /Subtype /Type0 /ToUnicode 6 0 R >>", packed("<00> <01>"));
  for (let at = 0; at < whole.length; at += 3) {
    const cut = whole.slice(0, at);
    const flipped = whole.slice();
    flipped[at] = flipped[at]! ^ 0x15;
    for (const bytes of [cut, flipped]) {
      await pdfText(bytes).catch((error: unknown) =>
        assert.ok(error instanceof PdfError, String(error)),
      );
    }
  }
  const nested = onePage(stream(`${"[".repeat(9999)} TJ`), PLAIN);
  await assert.rejects(pdfText(nested), /nested too deeply/);
  const loop = pdf(
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [2 0 R 2 0 R] >>",
    "3 0 R",
  );
  await assert.rejects(pdfText(loop), PdfError);
});
