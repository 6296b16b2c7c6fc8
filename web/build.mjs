// Builds the page: one HTML file with inline script and styles, and the content security policy for it.
//
//   node build.mjs           writes crates/server/assets/page.*
//   node build.mjs --check   fails if those files do not match the sources
//
// A single file needs one request, cannot mix versions, and lets the policy allow its script by digest alone: no
// other script runs, not even one from the same server.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = new URL(".", import.meta.url);
const assets = new URL("../crates/server/assets/", here);
/** Bundled packages and the files with their licences. */
const LICENCES = {
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

/** Lets browsers install the page as an app. Its icon is inside of it, as that of the page. */
const manifest = JSON.stringify(
  JSON.parse(readFileSync(new URL("src/page.webmanifest", here), "utf8")),
);

const policy = [
  "default-src 'none'",
  `script-src '${digest(script)}'`,
  `style-src '${digest(style)}'`,
  "img-src data:",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types dompurify",
].join("; ");

const packed = gzipSync(page, { level: 9 });
const matches = (name, ours) => readFileSync(new URL(name, assets)).equals(Buffer.from(ours));
if (process.argv.includes("--check")) {
  // Compressed bytes differ between versions of zlib, so the decompressed text is compared.
  const unpacked = gunzipSync(readFileSync(new URL("page.html.gz", assets)));
  const isCurrent =
    matches("page.html", page) &&
    matches("page.csp", policy) &&
    matches("page.webmanifest", manifest) &&
    unpacked.equals(Buffer.from(page));
  if (!isCurrent) {
    console.error("crates/server/assets/page.* does not match web/: run `npm run build` in web/");
    process.exit(1);
  }
} else {
  writeFileSync(new URL("page.html", assets), page);
  writeFileSync(new URL("page.html.gz", assets), packed);
  writeFileSync(new URL("page.csp", assets), policy);
  writeFileSync(new URL("page.webmanifest", assets), manifest);
}
const kb = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
console.log(`page: ${kb(Buffer.byteLength(page))}, ${kb(packed.length)} compressed`);
if (packed.length > 130_000)
  throw new Error(`the compressed page has ${packed.length} bytes: the limit is 130,000`);

function digest(text) {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

function licences() {
  // Each bundled package must be listed.
  const bundled = Object.keys(bundle.metafile.inputs).flatMap(
    (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? [],
  );
  for (const name of new Set(bundled)) {
    if (!(name in LICENCES)) throw new Error(`add the licence of ${name} to LICENCES`);
  }
  const text = Object.entries(LICENCES).map(([name, file]) => {
    const terms = readFileSync(new URL(`node_modules/${name}/${file}`, here), "utf8");
    return `${name}\n\n${terms.trim()}`;
  });
  return text.join(`\n\n${"-".repeat(72)}\n\n`);
}

function escape(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
