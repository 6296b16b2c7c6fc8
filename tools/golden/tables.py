"""Records blocks of random bytes in every block encoding of embeddings, and their values by gguf-py.

    python tools/golden/tables.py tests/data/tables.json
"""

import json
import pathlib
import sys

import gguf
import numpy

VALUES = 256
# Type: bytes of a block, and offsets of its f16 factors, which have to be ordinary numbers.
TYPES = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82],
    "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
}


def main(path):
    random = numpy.random.default_rng(1)
    records = []
    for name, factors in TYPES.items():
        kind = gguf.GGMLQuantizationType[name]
        block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (VALUES // block_len, block_bytes), dtype=numpy.uint8)
        for at in factors:
            scales = random.uniform(-0.1, 0.1, (len(blocks), 1)).astype(numpy.float16)
            blocks[:, at : at + 2] = scales.view(numpy.uint8)
        values = gguf.quants.dequantize(blocks.reshape(1, -1), kind).ravel()
        bits = values.astype(numpy.float32).view(numpy.uint32).tolist()
        records.append({"name": name, "bytes": blocks.tobytes().hex(), "values": bits})
    path.write_text("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n")


main(pathlib.Path(sys.argv[1]))
