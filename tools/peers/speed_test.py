"""Tests of `speed` with programs that print what llama-bench and llama-batched-bench print.

    python3 tools/peers/speed_test.py target/debug/wf
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SPEED = Path(__file__).with_name("speed")
WF = sys.argv.pop(1) if len(sys.argv) > 1 else "target/debug/wf"

# Prints a result for each test, as llama-bench does: the speed of round n is n times that of the first.
BENCH = """#!/usr/bin/env python3
import json, pathlib, sys
flag = lambda name: sys.argv[sys.argv.index(name) + 1]
log = pathlib.Path(__file__).with_name("log")
log.open("a").write(" ".join(sys.argv[1:]) + "\\n")
turn = sum("-o json" in line for line in log.read_text().splitlines())
assert flag("-o") == "json" and flag("-r") == "1"
test = lambda prompt, generated, speed: {
    "build_commit": "abcdef", "model_filename": flag("-m"), "n_threads": int(flag("-t")),
    "n_prompt": prompt, "n_gen": generated, "avg_ts": speed * turn, "samples_ts": [speed * turn]}
print(json.dumps([test(int(flag("-p")), 0, 100.0), test(0, int(flag("-n")), 10.0)], indent=2))
"""

# Prints a table among other lines, as llama-batched-bench does.
BATCHED = """#!/usr/bin/env python3
import pathlib, sys
flag = lambda name: sys.argv[sys.argv.index(name) + 1]
pathlib.Path(__file__).with_name("log").open("a").write(" ".join(sys.argv[1:]) + "\\n")
users, tokens = int(flag("-npl")), int(flag("-ntg"))
assert int(flag("-c")) >= users * (tokens + int(flag("-npp")))
print("main: n_kv_max = %s, n_batch = 2048" % flag("-c"))
print()
print("|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |")
print("|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|")
print("|     1 | %6d | %4d |    512 |    0.108 |   148.00 |    3.079 |    40.00 |    3.187 |    80.32 |" % (tokens, users))
print()
print("llama_print_timings:        load time =     100.00 ms")
"""


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)


class SpeedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        executable(self.folder / "llama-bench", BENCH)
        executable(self.folder / "llama-batched-bench", BATCHED)

    def speed(self, *flags, wf=WF):
        case = ["--threads", "2", "--prompt", "9", "--tokens", "7", "--users", "3"]
        command = [sys.executable, str(SPEED), wf, "--wf-flags", "--demo --smoke", *case, *flags]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def peer(self, name="fake 1.0"):
        return ["--peer", name, str(self.folder), "fake.gguf"]

    def test_the_table_and_the_file_have_medians_of_alternating_rounds(self):
        report = self.folder / "speed.json"
        flags = ["--batch-flags", "fake 1.0", " --repack", "--rounds", "3", "--json", str(report)]
        done = self.speed(*self.peer(), *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 4, done.stdout)
        self.assertIn("| prompt, 9 tokens | generation, 1 user | generation, 3 users |", lines[0])
        self.assertTrue(lines[2].startswith("| wf | "), lines[2])
        # Rounds of 100, 200 and 300 tokens per second.
        self.assertTrue(lines[3].startswith("| fake 1.0 | 200 | 20.0 | 40.0 | "), lines[3])

        order = [line for line in done.stderr.splitlines() if line.startswith("round ")]
        names = ["wf", "fake 1.0"] * 3
        self.assertEqual([line.split(": ")[1] for line in order], names)
        log = (self.folder / "log").read_text().splitlines()
        self.assertEqual(len(log), 6)
        self.assertEqual(log[0], "-m fake.gguf -t 2 -p 9 -n 7 -r 1 -o json")
        self.assertTrue(log[1].endswith("-npp 1 -ntg 7 -npl 3 --repack"), log[1])

        found = json.loads(report.read_text())
        self.assertEqual([found[key] for key in ["threads", "prompt", "tokens", "users"]], [2, 9, 7, 3])
        ours, theirs = found["engines"]
        self.assertEqual([one["generation"] for one in theirs["rounds"]], [10.0, 20.0, 30.0])
        self.assertEqual(theirs["median"], {"prompt": 200.0, "generation": 20.0, "batch": 40.0})
        ratios = sorted(a["prompt"] / b["prompt"] for a, b in zip(ours["rounds"], theirs["rounds"]))
        self.assertEqual(theirs["wf_ratio"]["prompt"], ratios[1])
        self.assertEqual(ours["wf_ratio"], {"prompt": 1.0, "generation": 1.0, "batch": 1.0})

    def test_wf_alone_needs_no_peer(self):
        done = self.speed("--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 3)

    def fails_with(self, done, *words):
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_failures_name_the_program(self):
        rounds = ["--rounds", "1"]
        self.fails_with(self.speed(*rounds, wf="no-such-wf"), "cannot run no-such-wf")
        self.fails_with(self.speed("--bench-flags", "other", " -x"), "no --peer has that name")
        executable(self.folder / "llama-bench", "#!/bin/sh\necho broken model >&2\nexit 3\n")
        self.fails_with(self.speed(*self.peer(), *rounds), "llama-bench", "status 3", "broken model")
        executable(self.folder / "llama-bench", "#!/bin/sh\necho '| a table |'\n")
        self.fails_with(self.speed(*self.peer(), *rounds), "llama-bench", "did not print JSON")
        executable(self.folder / "llama-bench", "#!/bin/sh\necho '[]'\n")
        self.fails_with(self.speed(*self.peer(), *rounds), "0 results for the prompt")
        executable(self.folder / "llama-bench", BENCH)
        executable(self.folder / "llama-batched-bench", "#!/bin/sh\necho nothing\n")
        self.fails_with(self.speed(*self.peer(), *rounds), "0 results for the batch")

    def test_a_case_that_wf_leaves_out_is_an_error(self):
        done = self.speed("--rounds", "1", "--prompt", "100000")
        self.fails_with(done, "did not measure", "prefill of 100000")


if __name__ == "__main__":
    unittest.main()
