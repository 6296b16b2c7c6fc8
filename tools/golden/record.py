"""Records the logits of a model of `transformers` beside its GGUF file."""

import json

import numpy
import torch
from safetensors.numpy import save_file


def record(folder, name, model, prompt, scored, config=None):
    """Writes random tokens, the logits of the `scored` positions among them, and the configuration, which `config` replaces."""
    ids = torch.randint(model.config.vocab_size, (1, prompt))
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0]
    records = {
        "ids": ids[0].to(torch.int32).numpy(),
        "scored": numpy.array(scored, dtype=numpy.int32),
        "logits": logits[scored].numpy(),
    }
    save_file(records, folder / f"{name}.safetensors")
    (folder / f"{name}.config.json").write_text(json.dumps(config or model.config.to_dict(), indent=1) + "\n")
