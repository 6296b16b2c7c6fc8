// The real binary, on a free port.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const BINARY = process.env.WF_BINARY;
if (!BINARY) throw new Error("WF_BINARY is not set: run tools/page/run BINARY");

/** Starts `wf serve` and waits until it answers. */
export async function startServer(flags = [], port = 0) {
  const args = ["serve", "--port", String(port), "--threads", "2", "--log", "warn", ...flags];
  const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "inherit"] });
  const first = await new Promise((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`wf serve ended with ${code}`)));
  });
  const url = / on (http:\S+)/.exec(first)[1];
  return {
    url: `${url}/`,
    port: Number(new URL(url).port),
    /** Asks it to stop, as an operator does. */
    terminate: () => child.kill("SIGTERM"),
    /** Ends it at once, as a crash does. */
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}
