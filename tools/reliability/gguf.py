"""Reads the metadata of a GGUF file, and writes it again with another value of a string."""

import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
ALIGNMENT = 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, format_):
        (value,) = struct.unpack_from("<" + format_, self.data, self.at)
        self.at += struct.calcsize("<" + format_)
        return value

    def string(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length : self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            item, count = self.take("I"), self.take("Q")
            if item in SCALARS:
                self.at += count * struct.calcsize("<" + SCALARS[item])
            else:
                for _ in range(count):
                    self.skip(item)
        else:
            self.take(SCALARS[kind])


def with_string(data, key, text):
    """Returns the file with another value of a string that it has."""
    reader = Reader(data)
    reader.at = 8
    tensors, pairs = reader.take("Q"), reader.take("Q")
    span = None
    for _ in range(pairs):
        name, kind = reader.string(), reader.take("I")
        start = reader.at
        reader.skip(kind)
        if name == key.encode() and kind == STRING:
            span = start, reader.at
    for _ in range(tensors):
        reader.string()
        dimensions = reader.take("I")
        reader.at += 8 * dimensions + 4 + 8
    text = text.encode()
    value = struct.pack("<Q", len(text)) + text
    head = data[: span[0]] + value + data[span[1] : reader.at]
    pad = lambda length: -length % ALIGNMENT
    return head + b"\0" * pad(len(head)) + data[reader.at + pad(reader.at) :]
