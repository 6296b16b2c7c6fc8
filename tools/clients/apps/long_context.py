"""Makes a model for programs with long prompts: the demo with its first layer only, and a longer context.

Its text is nonsense, and it reads a prompt of thirty thousand tokens in seconds. Some frequent tokens end its text, as
many programs do not limit the length of a completion.
"""

import struct
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2]
sys.path.append(str(TOOLS / "reliability"))
from gguf import ALIGNMENT, ARRAY, Reader

DEMO = TOOLS.parent / "crates/wf/assets/demo.gguf"
LAYERS, CONTEXT = 1, 131072
ENDS = [word.encode() for word in (".", "Ġthe", "Ġto", "Ġfrom", "Ġand")]
U32 = 4


def pad(length):
    return -length % ALIGNMENT


def string(text):
    return struct.pack("<Q", len(text)) + text


def metadata(reader, pairs):
    """Returns the bytes of all keys with their values, some of which differ from those of the demo."""
    values = {}
    for _ in range(pairs):
        name, kind = reader.string(), reader.take("I")
        start = reader.at
        reader.skip(kind)
        values[name] = kind, reader.data[start : reader.at]
    for name, (kind, _) in values.items():
        if name.endswith(b".block_count"):
            values[name] = kind, struct.pack("<I", LAYERS)
        elif name.endswith(b".context_length"):
            values[name] = kind, struct.pack("<I", CONTEXT)
    values[b"tokenizer.ggml.eos_token_ids"] = ARRAY, ends(values[b"tokenizer.ggml.tokens"][1])
    return [string(name) + struct.pack("<I", kind) + value for name, (kind, value) in values.items()]


def ends(tokens):
    """Returns the array of the ids of `ENDS`."""
    reader = Reader(tokens)
    reader.at = 4
    texts = [reader.string() for _ in range(reader.take("Q"))]
    ids = [texts.index(text) for text in ENDS]
    return struct.pack(f"<IQ{len(ids)}I", U32, len(ids), *ids)


def tensors(reader, count):
    """Returns the name, the description and the offset of each tensor."""
    found = []
    for _ in range(count):
        start = reader.at
        name = reader.string()
        dimensions = reader.take("I")
        reader.at += 8 * dimensions + 4
        found.append((name, reader.data[start : reader.at], reader.take("Q")))
    return found


def write(path):
    data = DEMO.read_bytes()
    reader = Reader(data)
    reader.at = 8
    count, pairs = reader.take("Q"), reader.take("Q")
    keys = metadata(reader, pairs)
    all_tensors = tensors(reader, count)
    begin = reader.at + pad(reader.at)
    offsets = sorted([offset for _, _, offset in all_tensors] + [len(data) - begin])
    kept, blob = [], b""
    for name, description, offset in all_tensors:
        if name.startswith(b"blk.") and int(name.split(b".")[1]) >= LAYERS:
            continue
        end = offsets[offsets.index(offset) + 1]
        kept.append(description + struct.pack("<Q", len(blob)))
        blob += data[begin + offset : begin + end]
        blob += b"\0" * pad(len(blob))
    head = data[:8] + struct.pack("<QQ", len(kept), len(keys)) + b"".join(keys + kept)
    Path(path).write_bytes(head + b"\0" * pad(len(head)) + blob)
