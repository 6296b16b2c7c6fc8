"""Records intermediate results of each layer of a BitNet or Llama model with forward hooks.

Names of the records, which have one row per token:

    layer.L.input               the residual stream entering the layer
    layer.L.attn_in_scaled      input of q, k and v times its activation scale, before rounding
    layer.L.attn_in_codes       the same, rounded: int8
    layer.L.query .key .value   outputs of the three products, before rotary
    layer.L.key_rotated         the keys after rotary, as cached
    layer.L.heads               outputs of all heads side by side, before any sub-norm
    layer.L.attn_out_scaled, _codes   input of the output product
    layer.L.attn_output         its output
    layer.L.ffn_in_scaled, _codes     input of gate and up
    layer.L.gate .up            their outputs
    layer.L.ffn_mid_scaled, _codes    input of the down product
    layer.L.ffn_output          its output
    layer.L.output              the residual stream leaving the layer
    final.norm                  input of the output head

Each pair of _scaled and _codes is accompanied by _scale, the factor between the input and _scaled.
"""

import torch
from transformers.integrations.bitnet import ActQuant, BitLinear

# Name under which the input of each product is recorded (q also stands for k and v, gate for up: they share it).
QUANTISED_INPUTS = {
    "self_attn.q_proj": "attn_in",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ffn_in",
    "mlp.down_proj": "ffn_mid",
}
OUTPUTS = {
    "self_attn.q_proj": "query",
    "self_attn.k_proj": "key",
    "self_attn.v_proj": "value",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "ffn_output",
}


def quantise(linear, x):
    """Returns the scale of each row of `x`, the scaled rows, and the codes, checked against the library's function."""
    scale = 127 / x.abs().max(dim=-1, keepdim=True).values.clamp(min=1e-5)
    scaled = x * scale
    codes = scaled.round().clamp(-128, 127)
    if isinstance(linear, BitLinear):
        library_codes, library_scale = linear.activation_quant(x)
        same = torch.equal(library_codes.to(x.dtype), codes) and torch.equal(library_scale, scale)
    else:
        same = torch.equal(ActQuant.apply(x), codes / scale)
    if not same:
        raise AssertionError("the library quantizes activations differently than this script")
    return scale, scaled, codes.to(torch.int8)


class Recorder:
    """Appends the rows of each forward pass of `model` to `rows` while the context is active."""

    def __init__(self, model):
        self.model = model
        self.rows = {}
        self.hooks = []

    def __enter__(self):
        for index, layer in enumerate(self.model.model.layers):
            self._watch_layer(f"layer.{index}.", layer)
        self._on_output(self.model.model.norm, "final.norm")
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()

    def tensors(self):
        """Returns all records, with the passes concatenated."""
        return {name: torch.cat(parts) for name, parts in self.rows.items()}

    def _watch_layer(self, prefix, layer):
        self._on_input(layer, prefix + "input")
        for path, name in QUANTISED_INPUTS.items():
            self._on_quantised_input(layer.get_submodule(path), prefix + name)
        for path, name in OUTPUTS.items():
            self._on_output(layer.get_submodule(path), prefix + name)
        attention = layer.self_attn
        self._on_input(getattr(attention, "attn_sub_norm", attention.o_proj), prefix + "heads")
        self._on_output(layer, prefix + "output")

    def _append(self, name, value):
        self.rows.setdefault(name, []).append(value.detach().squeeze(0).clone())

    def _on_input(self, module, name):
        self.hooks.append(module.register_forward_pre_hook(lambda _, args: self._append(name, args[0])))

    def _on_output(self, module, name):
        self.hooks.append(module.register_forward_hook(lambda _, __, output: self._append(name, output)))

    def _on_quantised_input(self, linear, name):
        def hook(_, args):
            scale, scaled, codes = quantise(linear, args[0])
            self._append(name + "_scale", scale)
            self._append(name + "_scaled", scaled)
            self._append(name + "_codes", codes)

        self.hooks.append(linear.register_forward_pre_hook(hook))


@torch.no_grad()
def record_forward(model, ids):
    """Runs one pass over `ids`. Returns the records and the logits of every position."""
    with Recorder(model) as recorder:
        result = model(torch.tensor([ids]), use_cache=True)
    records = recorder.tensors()
    for index, layer in enumerate(result.past_key_values.layers):
        # From [1, head, token, element] to one row per token.
        records[f"layer.{index}.key_rotated"] = layer.keys[0].transpose(0, 1).flatten(1).clone()
    return records, result.logits[0]


@torch.no_grad()
def record_cached(model, prompt, pick, steps):
    """Runs `prompt`, then `steps` single tokens with the K/V cache. `pick` selects each token."""
    decoded, logits, cache, fed = [], [], None, prompt
    with Recorder(model) as recorder:
        for _ in range(1 + steps):
            result = model(torch.tensor([fed]), past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            logits.append(result.logits[0])
            fed = [pick(result.logits[0, -1])]
            decoded += fed
    return recorder.tensors(), torch.cat(logits), decoded[:steps]


@torch.no_grad()
def layer_outputs(model, inputs):
    """Returns the output of each layer for the input `inputs[layer]`."""
    overrides = [
        layer.register_forward_pre_hook(
            lambda _, args, kwargs, x=x: ((x.unsqueeze(0), *args[1:]), kwargs), with_kwargs=True
        )
        for layer, x in zip(model.model.layers, inputs, strict=True)
    ]
    outputs = []
    taps = [
        layer.register_forward_hook(lambda _, __, output: outputs.append(output.squeeze(0).clone()))
        for layer in model.model.layers
    ]
    try:
        model(torch.zeros(1, inputs[0].shape[0], dtype=torch.long), use_cache=False)
    finally:
        for hook in overrides + taps:
            hook.remove()
    return outputs
