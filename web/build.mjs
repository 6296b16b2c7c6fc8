// Makes the page: one HTML file with its script and styles inside, and the policy that allows just these two.
//
//   node build.mjs           writes crates/server/assets/page.*
//   node build.mjs --check   fails if what is there is not what these sources give
//
// One file, because then every part of a page is of the same version, one request paints it, and the policy can
// name its script by digest: no other script runs, not even one from the same server.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = new URL(".", import.meta.url);
const assets = new URL("../crates/server/assets/", here);
/** What is in the page besides our own code, and the file with its terms. */
const PARTS = {
  preact: "LICENSE",
  "@preact/signals": "LICENSE",
  "@preact/signals-core": "LICENSE",
  marked: "LICENSE",
  dompurify: "LICENSE",
  "highlight.js": "LICENSE",
};

const bundle = await build({
  entryPoints: ["src/main.tsx", "src/style/page.css"].map((path) => new URL(path, here).pathname),
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome123", "firefox120", "safari17.5"],
  charset: "utf8",
  legalComments: "none",
  outdir: "out",
  write: false,
  metafile: true,
});
const output = (end) => bundle.outputFiles.find((file) => file.path.endsWith(end)).text.trim();
const script = output(".js");
const style = output(".css");

const page = readFileSync(new URL("src/index.html", here), "utf8")
  .replace("<!-- style -->", () => `<style>${style}</style>`)
  .replace("<!-- licences -->", () => escape(licences()))
  .replace("<!-- script -->", () => `<script>${script}</script>`);

const policy = [
  "default-src 'none'",
  `script-src '${digest(script)}'`,
  `style-src '${digest(style)}'`,
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types dompurify",
].join("; ");

const packed = gzipSync(page, { level: 9 });
const is = (name, ours) => readFileSync(new URL(name, assets)).equals(Buffer.from(ours));
if (process.argv.includes("--check")) {
  // Another version of zlib may pack differently: what counts is what comes out.
  const unpacked = gunzipSync(readFileSync(new URL("page.html.gz", assets)));
  const isCurrent =
    is("page.html", page) && is("page.csp", policy) && unpacked.equals(Buffer.from(page));
  if (!isCurrent) {
    console.error(
      "the page in crates/server/assets is not built from web/: run `npm run build` there",
    );
    process.exit(1);
  }
} else {
  writeFileSync(new URL("page.html", assets), page);
  writeFileSync(new URL("page.html.gz", assets), packed);
  writeFileSync(new URL("page.csp", assets), policy);
}
const kb = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
console.log(`page: ${kb(Buffer.byteLength(page))}, ${kb(packed.length)} packed`);
if (packed.length > 300 * 1024) throw new Error("the page is larger than 300 KiB packed");

function digest(text) {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

function licences() {
  // Whatever is bundled must be in the list.
  const bundled = Object.keys(bundle.metafile.inputs).flatMap(
    (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? [],
  );
  for (const name of new Set(bundled)) {
    if (!(name in PARTS)) throw new Error(`the licence of ${name} is not in the page`);
  }
  const text = Object.entries(PARTS).map(([name, file]) => {
    const terms = readFileSync(new URL(`node_modules/${name}/${file}`, here), "utf8");
    return `${name}\n\n${terms.trim()}`;
  });
  return text.join(`\n\n${"-".repeat(72)}\n\n`);
}

function escape(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
