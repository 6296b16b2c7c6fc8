"""Writes small random BitNet checkpoints and records the intermediate results of `transformers`.

    python random_checkpoints.py OUT [--only NAME]

For each recipe, OUT/NAME contains a Hugging Face checkpoint and `reference.safetensors`: the records of recording.py
for a prompt and four decoded tokens, logits, and float64 versions. Seeds are tried until no activation is so close to a
rounding tie that another order of additions could flip its code. Codes can then be compared for equality, and logits
with a small tolerance.
"""

import argparse
import json
import pathlib
import shutil

import torch
import transformers
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file
from transformers.integrations.bitnet import pack_weights

from precision import library_in_float64, load, versions
from recipes import RECIPES
from recording import OUTPUTS, QUANTISED_INPUTS, layer_outputs, record_cached, record_forward

# Records that this script checks but does not write.
NOT_KEPT = ("_scale", ".ffn_output")
PROMPT_TOKENS = 9
DECODED_TOKENS = 4
# A code is safe if the distance of its exact value from a tie exceeds this multiple of the largest difference between
# the float32 and float64 runs in the same record, which is about the effect of another order of additions.
TIE_MARGIN_IN_NOISE = 2
# Minimum distance of master weights from a tie between two trits, in units of their mean.
WEIGHT_TIE_MARGIN = 1e-5


class TooNearATie(Exception):
    """A value is too close to a rounding tie; the next seed is tried."""


def random_trits(rows, columns, generator):
    """Returns uniformly distributed trits."""
    return torch.randint(-1, 2, (rows, columns), generator=generator).float()


def matrix_scale(path, layer, columns, generator):
    """Returns a scale with which no stage saturates and every stage affects the output.

    Attention scores have a spread of about columns * q * k, so the product of q and k is fixed; the two values are
    swapped from layer to layer. The others differ by matrix and layer, from 0.01 to 3.
    """
    jitter = 0.8 + 0.4 * torch.rand((), generator=generator).item()
    score_share = 2.0 / columns
    large_query = 3.0 if layer % 2 == 0 else 0.02
    centre = {
        "self_attn.q_proj": large_query,
        "self_attn.k_proj": score_share / large_query,
        "self_attn.v_proj": 0.012 if layer % 2 == 0 else 0.7,
        "self_attn.o_proj": 0.15 if layer % 2 == 0 else 0.06,
        "mlp.gate_proj": 0.2 if layer % 2 == 0 else 0.4,
        "mlp.up_proj": 2.5 if layer % 2 == 0 else 0.03,
        "mlp.down_proj": 0.04 if layer % 2 == 0 else 0.11,
    }[path]
    return torch.tensor([centre * jitter]).bfloat16()


def loud(row, generator):
    """Returns a row with 100 times the norm of `row`, concentrated in three coordinates.

    A scale shared between tokens would round the other tokens to zero.
    """
    result = row * 5
    outliers = torch.randperm(len(row), generator=generator)[:3]
    target = 100 * row.norm()
    result[outliers] = torch.sign(row[outliers]) * target / 3**0.5
    return result * (target / result.norm())


def random_tensors(recipe, loud_token, generator):
    """Returns the state dict, and (trits, scale) of each ternary matrix."""
    state, meaning = {}, {}

    def norm(width):
        return (0.5 + torch.rand(width, generator=generator)).bfloat16()

    embedding = torch.randn(recipe.vocab, recipe.hidden, generator=generator)
    embedding[loud_token] = loud(embedding[loud_token], generator)
    state["model.embed_tokens.weight"] = embedding.bfloat16()
    for layer in range(recipe.layers):
        prefix = f"model.layers.{layer}."
        for path, rows, columns in recipe.matrices():
            scale = matrix_scale(path, layer, columns, generator)
            if recipe.holds_master_weights:
                master = (torch.randn(rows, columns, generator=generator) * scale.float() * 1.25).bfloat16()
                state[prefix + path + ".weight"] = master
                meaning[prefix + path] = trits_of_master(master)
            else:
                trits = random_trits(rows, columns, generator)
                stored = 1 / scale.float() if recipe.scale_divides else scale.float()
                stored = stored.bfloat16()
                # pack_weights adds 1 to its argument in place.
                state[prefix + path + ".weight"] = pack_weights(trits.clone())
                state[prefix + path + ".weight_scale"] = stored
                stored = stored.double().item()
                meaning[prefix + path] = (trits, 1 / stored if recipe.scale_divides else stored)
        for path, width in recipe.norms():
            state[prefix + path + ".weight"] = norm(width)
    state["model.norm.weight"] = norm(recipe.hidden)
    if not recipe.tied:
        state["lm_head.weight"] = torch.randn(recipe.vocab, recipe.hidden, generator=generator).bfloat16()
    return state, meaning


def trits_of_master(master):
    """Quantizes master weights as online quantization does. Raises for weights near a tie."""
    mean = master.double().abs().mean().item()
    scaled = master.double() / mean
    if (scaled.abs() - 0.5).abs().min() < WEIGHT_TIE_MARGIN:
        raise TooNearATie
    return scaled.round().clamp(-1, 1).float(), mean


def write_config(recipe, directory):
    """Writes config.json in the style of the current transformers or of version 4."""
    quantization = {"quant_method": "bitnet", "quantization_mode": recipe.mode}
    if recipe.linear_class is None:
        quantization = {"quant_method": "bitnet", "modules_to_not_convert": None}
    else:
        quantization["linear_class"] = recipe.linear_class
    fields = {
        "vocab_size": recipe.vocab,
        "hidden_size": recipe.hidden,
        "intermediate_size": recipe.ffn,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "num_key_value_heads": recipe.kv_heads,
        "hidden_act": recipe.activation,
        "max_position_embeddings": 64,
        "rms_norm_eps": recipe.norm_eps,
        "tie_word_embeddings": recipe.tied,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    if recipe.head_dim:
        fields["head_dim"] = recipe.head_dim
    model_type = {"BitNetForCausalLM": "bitnet", "LlamaForCausalLM": "llama"}[recipe.architecture]
    if recipe.config_style == 4:
        whole = {"architectures": [recipe.architecture], "model_type": model_type, **fields,
                 "rope_theta": recipe.rope_theta, "torch_dtype": "bfloat16", "quantization_config": quantization}
        (directory / "config.json").write_text(json.dumps(whole, indent=2) + "\n")
    else:
        config = transformers.AutoConfig.for_model(
            model_type, **fields, rope_parameters={"rope_type": "default", "rope_theta": recipe.rope_theta}
        )
        config.architectures = [recipe.architecture]
        config.dtype = torch.bfloat16
        config.quantization_config = quantization
        config.save_pretrained(directory)
    transformers.GenerationConfig(bos_token_id=0, eos_token_id=1, do_sample=False).save_pretrained(directory)


def write_tensors(recipe, state, directory):
    """Writes model.safetensors, or shards with an index."""
    if recipe.shard_size is None:
        save_file(state, directory / "model.safetensors", metadata={"format": "pt"})
        return
    split = split_torch_state_dict_into_shards(state, max_shard_size=recipe.shard_size)
    for file, names in split.filename_to_tensors.items():
        save_file({name: state[name] for name in names}, directory / file, metadata={"format": "pt"})
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def check_products(recipe, records, meaning):
    """Checks that the recorded products equal codes times trits times scales."""
    shared_input = {"self_attn.k_proj": "attn_in", "self_attn.v_proj": "attn_in", "mlp.up_proj": "ffn_in"}
    for layer in range(recipe.layers):
        for path, output in OUTPUTS.items():
            source = f"layer.{layer}." + (shared_input.get(path) or QUANTISED_INPUTS[path])
            trits, scale = meaning[f"model.layers.{layer}.{path}"]
            whole = records[source + "_codes"].double() @ trits.double().T
            expected = whole * scale / records[source + "_scale"].double()
            found = records[f"layer.{layer}.{output}"].double()
            error = (found - expected).abs().amax(dim=-1) / expected.abs().amax(dim=-1)
            if error.max() > 2e-6:
                raise AssertionError(f"{recipe.name} layer {layer} {path}: error is {error.max():.1e} of the largest element of the row")


def check_margins(records, twins):
    """Raises if a code is so close to a tie that float32 rounding could change it."""
    for name, scaled in records.items():
        if name.endswith("_scaled"):
            noise = (scaled.double() - twins[name]).abs().max()
            to_tie = (twins[name].abs() % 1 - 0.5).abs().min()
            if to_tie < TIE_MARGIN_IN_NOISE * noise:
                raise TooNearATie


def reference(recipe, directory, meaning, loud_token, generator):
    """Runs the checkpoint in all ways and returns the tensors to write."""
    prompt = torch.randint(2, recipe.vocab, (PROMPT_TOKENS,), generator=generator).tolist()
    prompt[0], prompt[3] = 0, loud_token

    seen = set(prompt)

    def pick(logits):
        # The best token that is not in the sequence yet: random models with a tied embedding would repeat the loud row.
        new = logits.clone()
        new[sorted(seen)] = -torch.inf
        seen.add(new.argmax().item())
        return new.argmax().item()

    model = load(directory)
    cached, cached_logits, decoded = record_cached(model, prompt, pick, DECODED_TOKENS)
    ids = prompt + decoded
    records, logits = record_forward(model, ids)
    with library_in_float64():
        double = load(directory, torch.float64)
        twins, logits_f64 = record_forward(double, ids)
        inputs = [records[f"layer.{layer}.input"].double() for layer in range(recipe.layers)]
        outputs_f64 = layer_outputs(double, inputs)

    check_margins(records, twins)
    check_products(recipe, records, meaning)
    # The loud row of a tied head causes logits in the thousands, hence the relative tolerance.
    for name, rows in cached.items():
        torch.testing.assert_close(rows, records[name], atol=1e-4, rtol=1e-5, msg=lambda m: f"{name}: {m}")
    torch.testing.assert_close(cached_logits, logits, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(logits_f64.float(), logits, atol=2e-4, rtol=1e-5)

    kept = {
        name: rows.contiguous() for name, rows in records.items() if not name.endswith(NOT_KEPT)
    }
    kept["prompt_ids"] = torch.tensor(prompt, dtype=torch.int32)
    kept["decoded_ids"] = torch.tensor(decoded, dtype=torch.int32)
    kept["loud_token"] = torch.tensor([loud_token], dtype=torch.int32)
    kept["prompt.logits"] = cached_logits[:PROMPT_TOKENS].contiguous()
    kept["decode.logits"] = cached_logits[PROMPT_TOKENS:].contiguous()
    kept["logits_f64"] = logits_f64
    for layer, output in enumerate(outputs_f64):
        kept[f"layer.{layer}.output_f64"] = output
    return kept


def make(recipe, out):
    """Writes OUT/NAME from the first seed without ties, and returns the seed."""
    directory = out / recipe.name
    for seed in range(2000):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        generator = torch.Generator().manual_seed(seed)
        loud_token = recipe.vocab // 2 + 1
        try:
            state, meaning = random_tensors(recipe, loud_token, generator)
            write_config(recipe, directory)
            write_tensors(recipe, state, directory)
            kept = reference(recipe, directory, meaning, loud_token, generator)
        except TooNearATie:
            continue
        save_file(kept, directory / "reference.safetensors")
        for file in directory.glob("*.safetensors"):
            file.chmod(0o644)
        (directory / "made_by.txt").write_text(
            f"python tools/golden/random_checkpoints.py tests/data/random --only {recipe.name}\nseed {seed}\n{versions()}\n"
        )
        return seed
    raise RuntimeError(f"{recipe.name}: no seed avoids ties")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", help="make this one checkpoint")
    arguments = parser.parse_args()
    for recipe in RECIPES:
        if arguments.only in (None, recipe.name):
            seed = make(recipe, arguments.out)
            size = sum(file.stat().st_size for file in (arguments.out / recipe.name).iterdir())
            print(f"{recipe.name}: seed {seed}, {size} bytes", flush=True)


if __name__ == "__main__":
    main()
