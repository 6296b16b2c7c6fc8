// Starts the real binary on a free port.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const BINARY = process.env.WF_BINARY;
if (!BINARY) throw new Error("WF_BINARY is not set: run tools/page/run BINARY");

/** Flags of a server whose endless responses outlast any test, however fast the machine is. */
export const SLOW = ["--isa", "scalar"];

/** Starts `wf serve` and waits until it listens. One thread leaves the browser a core on a machine with two. */
export async function startServer(flags = [], port = 0) {
  const args = ["serve", "--port", String(port), "--threads", "1", "--log", "warn", ...flags];
  const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "inherit"] });
  const first = await new Promise((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`wf serve exited with status ${code}`)));
  });
  const url = / on (http:\S+)/.exec(first)[1];
  return {
    url: `${url}/`,
    port: Number(new URL(url).port),
    /** Starts a graceful shutdown. */
    terminate: () => child.kill("SIGTERM"),
    /** Kills the process, as a crash would. */
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}
