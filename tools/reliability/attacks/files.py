"""Model files with errors: `wf inspect` describes or refuses each, in little time and memory."""

import concurrent.futures
import pathlib
import random
import resource
import struct
import subprocess
import tempfile

from process import check

DATA = pathlib.Path(__file__).parents[3] / "tests/data"
SECONDS, MEMORY, WORKERS = 20, 2 << 30, 2
MUTANTS = 2000
# Lengths, counts and offsets that overflow something.
NUMBERS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
# The part of a file that describes the rest.
HEAD = 8192


def sources():
    names = ["*/*.gguf", "*/*.safetensors", "wf/*.wf", "tiles/*.bin"]
    return sorted(path for name in names for path in DATA.glob(name))


def mutant(data, rng):
    """Returns a copy with one to eight errors, most of them in the head."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(min(len(data), HEAD) if rng.random() < 0.8 else len(data)) if data else 0
        match rng.randrange(7):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                data[at : at + 8] = struct.pack("<Q", rng.choice(NUMBERS))
            case 2:
                data[at : at + 4] = struct.pack("<I", rng.choice(NUMBERS) & 0xFFFFFFFF)
            case 3:
                del data[at:]
            case 4:
                del data[at : at + rng.randint(1, 64)]
            case 5:
                data[at:at] = data[at : at + rng.randint(1, 64)]
            case 6:
                data[at : at + 16] = str(rng.choice(NUMBERS)).encode()[:16]
    return bytes(data)


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def inspect(binary, path):
    """Returns what went wrong, or `None`, and whether the file was accepted."""
    command = [binary, "inspect", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return f"not within {SECONDS} s", False
    text = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1) or "panicked" in text:
        return f"exit code {done.returncode}: {text[-300:]}", False
    if done.returncode == 1 and not text.strip():
        return "refused without a reason", False
    return None, done.returncode == 0


async def run(arena):
    paths = sources()
    count = max(20, round(MUTANTS * arena.share))

    def one(number):
        rng = random.Random(number)
        source = rng.choice(paths)
        with tempfile.NamedTemporaryFile(suffix=source.suffix) as file:
            file.write(mutant(source.read_bytes(), rng))
            file.flush()
            problem, accepted = inspect(arena.binary, file.name)
        check(problem is None, f"mutant {number} of {source.name}: {problem}")
        return accepted

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        accepted = sum(pool.map(one, range(count)))
    return f"{count} mutants of {len(paths)} files: {accepted} accepted, {count - accepted} refused"
