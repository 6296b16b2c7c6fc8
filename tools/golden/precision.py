"""Loads a BitNet checkpoint with `transformers`, exactly in float32 or exactly in float64.

The library's own settings reach neither: a quantised checkpoint is loaded with its norms and embedding left in
bfloat16 whatever `dtype` says, `model.float()` is refused for quantised models, and after a plain cast to float64
the norms, the softmax, the rotary angles and the activation scales still pass through float32 by explicit casts.
"""

import contextlib

import torch
import transformers
from transformers.integrations.bitnet import BitLinear
from transformers.models.bitnet import modeling_bitnet
from transformers.models.llama import modeling_llama

# Compiled kernels may fuse and so round otherwise; eager execution is what the source says.
torch.compiler.set_stance("force_eager")
# Sums are split by thread: one thread makes the float32 results repeat on one machine.
torch.set_num_threads(1)

MODELING_MODULES = (modeling_bitnet, modeling_llama)


def load(directory, dtype=torch.float32):
    """The model in `directory`, every floating tensor in `dtype`; refuses missing or unknown tensors."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if report.get(problem):
            raise ValueError(f"{directory}: {problem}: {report[problem]}")
    torch.nn.Module.to(model, dtype)
    for module in model.modules():
        if isinstance(module, BitLinear):
            module.dtype = dtype
    if dtype == torch.float64:
        with library_in_float64():
            rotary = model.model.rotary_emb
            rotary.inv_freq, _ = rotary.compute_default_rope_parameters(model.config)
    return model.eval()


@contextlib.contextmanager
def library_in_float64():
    """Inside, the library's casts to float32 are casts to float64: its own code, without its own rounding."""
    to_float32 = torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double
    for module in MODELING_MODULES:
        module.torch = _TorchWithoutFloat32()
    try:
        yield
    finally:
        torch.Tensor.float = to_float32
        for module in MODELING_MODULES:
            module.torch = torch


class _TorchWithoutFloat32:
    """The name `torch` as a modelling file sees it, with float64 where float32 is asked for."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


def versions():
    """What made the numbers, for the records written beside them."""
    return f"transformers {transformers.__version__}, torch {torch.__version__}"
