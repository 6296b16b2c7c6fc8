"""Writes GGUF files of version 3, for scripts that record files in the style of other programs."""

import struct


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value(value):
    """Encodes a value, preceded by its type number."""
    plain = {bool: (7, "<?"), int: (4, "<I"), float: (6, "<f")}
    if isinstance(value, str):
        return struct.pack("<I", 8) + string(value)
    if isinstance(value, list):
        number = {str: 8, int: 5, float: 6}[type(value[0])]
        form = {str: string, int: lambda v: struct.pack("<i", v), float: lambda v: struct.pack("<f", v)}
        head = struct.pack("<IIQ", 9, number, len(value))
        return head + b"".join(map(form[type(value[0])], value))
    number, form = plain[type(value)]
    return struct.pack("<I", number) + struct.pack(form, value)


def write(path, keys, records):
    """Writes pairs of keys and values, and tensors as name, dimensions, type number and bytes."""
    keys, records = list(keys), list(records)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(records), len(keys))
    head += b"".join(string(key) + value(content) for key, content in keys)
    data = b""
    for name, shape, number, content in records:
        head += string(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", size) for size in shape)
        head += struct.pack("<IQ", number, len(data))
        data += content + bytes(-len(content) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def byte_tokens():
    """Returns one token per byte, in the letters that byte-level tokenizers show bytes as."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    letters |= {byte: chr(256 + at) for at, byte in enumerate(hidden)}
    return [letters[byte] for byte in range(256)]
