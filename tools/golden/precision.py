"""Loads a BitNet checkpoint with `transformers`, exactly in float32 or exactly in float64.

The settings of the library achieve neither: norms and embedding of a quantized checkpoint stay in bfloat16 for any
`dtype`, `model.float()` raises an error for quantized models, and after a cast to float64 the norms, the softmax, the
rotary angles and the activation scales are still computed in float32 because of explicit casts.
"""

import contextlib

import torch
import transformers
from transformers.integrations.bitnet import BitLinear
from transformers.models.bitnet import modeling_bitnet
from transformers.models.llama import modeling_llama

# Compiled kernels may fuse operations and round differently; eager execution follows the source.
torch.compiler.set_stance("force_eager")
# Sums are split by thread; with one thread, float32 results are reproducible on one machine.
torch.set_num_threads(1)

MODELING_MODULES = (modeling_bitnet, modeling_llama)


def load(directory, dtype=torch.float32):
    """Loads the model in `directory` with all floating tensors in `dtype`. Raises for missing or unknown tensors."""
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
    """Turns the library's casts to float32 into casts to float64 while the context is active."""
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
    """The module `torch` for modelling files, with float64 in place of float32."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


def versions():
    """Returns the versions that produced the data."""
    return f"transformers {transformers.__version__}, torch {torch.__version__}"
