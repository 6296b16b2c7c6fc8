// Bundles the tests and runs them with Node's test runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const out = mkdtempSync(join(tmpdir(), "wf-page-"));
try {
  const tests = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
  await build({
    entryPoints: tests.map((name) => join(here, name)),
    bundle: true,
    platform: "node",
    format: "esm",
    outdir: out,
    outExtension: { ".js": ".mjs" },
  });
  const files = tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
  const { status } = spawnSync(process.execPath, ["--test", "--test-reporter", "dot", ...files], {
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
