"""Shapes, linear classes and file styles of the random checkpoints.

Every pair of {linear class and mode} x {grouped-query, multi-head} x {tied, untied} occurs, and each checkpoint covers
at least one more case that a reader or a kernel can get wrong.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """One checkpoint. If `linear_class` is None, config.json has no such key, as in older files."""

    name: str
    linear_class: str | None
    mode: str
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    layers: int
    vocab: int
    tied: bool
    activation: str = "relu2"
    architecture: str = "BitNetForCausalLM"
    head_dim: int | None = None
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    # transformers 5 writes `rope_parameters` and `dtype`; files from transformers 4 have `rope_theta` and `torch_dtype`.
    config_style: int = 5
    shard_size: str | None = None

    @property
    def holds_master_weights(self):
        """True if the file has bfloat16 master weights instead of packed trits, four per byte."""
        # BitLinear is packed in both modes: the library reads `quantization_mode` for AutoBitLinear only.
        return self.linear_class == "autobitlinear" and self.mode == "online"

    @property
    def scale_divides(self):
        """BitLinear divides by the stored scale, AutoBitLinear multiplies."""
        return self.linear_class != "autobitlinear"

    @property
    def width_of_head(self):
        return self.head_dim or self.hidden // self.heads

    def matrices(self):
        """(path inside a layer, rows, columns) of every ternary matrix."""
        query = self.heads * self.width_of_head
        key = self.kv_heads * self.width_of_head
        return [
            ("self_attn.q_proj", query, self.hidden),
            ("self_attn.k_proj", key, self.hidden),
            ("self_attn.v_proj", key, self.hidden),
            ("self_attn.o_proj", self.hidden, query),
            ("mlp.gate_proj", self.ffn, self.hidden),
            ("mlp.up_proj", self.ffn, self.hidden),
            ("mlp.down_proj", self.hidden, self.ffn),
        ]

    def norms(self):
        """(path inside a layer, width) of every norm of a layer."""
        norms = [("input_layernorm", self.hidden), ("post_attention_layernorm", self.hidden)]
        if self.architecture == "BitNetForCausalLM":
            norms += [("self_attn.attn_sub_norm", self.hidden), ("mlp.ffn_sub_norm", self.ffn)]
        return norms


RECIPES = [
    # A width that is not a multiple of 64, and heads of size 24.
    Recipe("auto-offline-gqa-tied", "autobitlinear", "offline", 96, 4, 2, 256, 2, 288, tied=True,
           rope_theta=500000.0, config_style=4),
    # Three layers; a feed-forward width that is a multiple of 32 only.
    Recipe("auto-offline-mha-untied", "autobitlinear", "offline", 64, 4, 4, 160, 3, 256, tied=False),
    # One K/V head for all query heads.
    Recipe("bit-offline-mqa-untied", "bitlinear", "offline", 64, 4, 1, 192, 2, 256, tied=False,
           rope_theta=500000.0),
    # SiLU inside BitNet, three heads, a feed-forward width that is a multiple of 8 only.
    Recipe("bit-offline-mha-tied-silu", "bitlinear", "offline", 96, 3, 3, 200, 2, 256, tied=True,
           activation="silu", config_style=4),
    Recipe("auto-online-gqa-untied", "autobitlinear", "online", 64, 4, 2, 128, 2, 256, tied=False,
           norm_eps=1e-6, config_style=4),
    # A feed-forward width that is a multiple of 4 only; an epsilon large enough to matter.
    Recipe("auto-online-mha-tied-silu", "autobitlinear", "online", 64, 2, 2, 132, 2, 256, tied=True,
           activation="silu", norm_eps=1e-3),
    # The mode is "online", but the weights are packed.
    Recipe("bit-online-mha-untied", "bitlinear", "online", 80, 2, 2, 160, 2, 256, tied=False, config_style=4),
    Recipe("bit-online-gqa-tied", "bitlinear", "online", 96, 6, 3, 144, 2, 256, tied=True, rope_theta=500000.0),
    # Like the 1.58-bit Llama checkpoints: no linear class, no sub-norms.
    Recipe("llama-gqa-untied", None, "offline", 96, 4, 2, 192, 2, 256, tied=False, activation="silu",
           architecture="LlamaForCausalLM", rope_theta=500000.0, config_style=4),
    # Heads wider than the model in total: 4 x 32 and 96.
    Recipe("llama-wide-heads-tied", None, "offline", 96, 4, 1, 128, 2, 256, tied=True, activation="silu",
           architecture="LlamaForCausalLM", head_dim=32),
    # The widest, in several shards.
    Recipe("auto-offline-gqa-tied-sharded", "autobitlinear", "offline", 128, 4, 2, 320, 2, 256, tied=True,
           rope_theta=500000.0, shard_size="60KB"),
]
