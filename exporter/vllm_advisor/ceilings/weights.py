"""How much memory a model's weights take on one GPU."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from vllm_advisor.ceilings.engine_flags import DTYPE_BYTES, EngineFlags
from vllm_advisor.ceilings.estimate import Estimate
from vllm_advisor.ceilings.kv_pages import model_dtype_bytes
from vllm_advisor.sources.model_config import ModelConfig, Quantization

__all__ = ["QUANTIZATION_BYTES", "parameters_in_name", "weights_per_gpu"]

QUANTIZATION_BYTES = {
    "fp8": Fraction(1),
    "ptpc_fp8": Fraction(1),
    "fbgemm_fp8": Fraction(1),
    "int8": Fraction(1),
    "w8a8": Fraction(1),
    "experts_int8": Fraction(1),
    "mxfp8": Fraction(33, 32),
    "mxfp4": Fraction(17, 32),
    "nvfp4": Fraction(9, 16),
    "awq": Fraction(133, 256),
    "awq_marlin": Fraction(133, 256),
    "gptq": Fraction(133, 256),
    "gptq_marlin": Fraction(133, 256),
    "bitsandbytes": Fraction(17, 32),
}
"""Bytes of a weight by what ``--quantization`` names, scales of the usual groups included."""

_IN_NAME = re.compile(r"(?i)(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?!-\d+e\b)(?![a-z0-9])")


def weights_per_gpu(
    model: ModelConfig | None,
    flags: EngineFlags,
    *,
    parameters: float | None = None,
    quantization: str | None = None,
) -> Estimate | None:
    """Return the weights of one GPU, None where nothing says how many parameters there are.

    Args:
        model: its checkpoint's size where ``parameters`` is not given, else its parameters counted.
        flags: for the dtype and the ranks that share the weights.
        parameters: of the whole model.
        quantization: as ``--quantization``, or what the checkpoint is stored in.
    """
    ranks = flags.tensor_parallel_size * flags.pipeline_parallel_size
    if parameters is not None:
        element = _quantized_bytes(model, quantization) or Fraction(_dtype_bytes(model, flags))
        exact = math.floor(Fraction(parameters) * element / ranks)
        return Estimate(
            exact, exact, exact, f"{parameters / 1e9:.4g} billion parameters x {float(element):g} bytes"
        )
    if model is None:
        return None
    as_stored = quantization is None and flags.dtype in {"auto", model.dtype}
    if model.checkpoint_bytes is not None and as_stored:
        stored_bytes = model.checkpoint_bytes / ranks
        return Estimate.around(
            stored_bytes, 0.97, 1.06, f"{model.checkpoint_bytes / 1e9:.4g} GB of checkpoint"
        )
    if not model.weights.missing:
        size_bytes = _counted_bytes(model, flags, quantization)
        return Estimate.around(
            size_bytes, 0.97, 1.06, f"{model.weights.total / 1e9:.4g} billion parameters counted"
        )
    named = parameters_in_name(model.name)
    if named is None:
        return None
    element = _quantized_bytes(model, quantization) or Fraction(_dtype_bytes(model, flags))
    return Estimate.around(named * float(element) / ranks, 0.9, 1.2, f"parameters from the name {model.name}")


def parameters_in_name(name: str) -> float | None:
    """Return the number of parameters that a model's name states: ``8B``, ``8x7B``, ``350M``.

    The size of what is active (``A3B``, ``17B-16E``) is not taken for the whole.
    A mixture's experts share their attention, which is taken as a ninth of each (Mixtral 8x7B: 46.7 of 56).
    """
    match = _IN_NAME.search(name.rsplit("/", maxsplit=1)[-1])
    if match is None:
        return None
    experts, size, unit = match.groups()
    each = float(size) * (1e9 if unit.lower() == "b" else 1e6)
    return each * (1 + (int(experts) - 1) * 0.81) if experts else each


def _dtype_bytes(model: ModelConfig | None, flags: EngineFlags) -> int:
    if model is not None:
        return model_dtype_bytes(model, flags)
    return DTYPE_BYTES.get(flags.dtype, 2)


def _counted_bytes(model: ModelConfig, flags: EngineFlags, quantization: str | None) -> float:
    """Divide each part as the ranks do: quantization leaves embeddings and encoders as they are.

    The first pipeline stage holds the embedding and the last one the output head.
    """
    weights, dense_bytes = model.weights, float(_dtype_bytes(model, flags))
    experts_bytes = float(_quantized_bytes(model, quantization) or dense_bytes)
    experts_only = _method(model, quantization).startswith("mxfp4")
    linear_bytes = dense_bytes if experts_only else experts_bytes
    shared = (weights.attention + weights.mlp) * linear_bytes + weights.experts * experts_bytes
    stages = flags.pipeline_parallel_size
    tables = weights.embedding / min(stages, 2) + weights.tower
    return (
        shared / stages + tables * dense_bytes
    ) / flags.tensor_parallel_size + weights.replicated * linear_bytes / stages


def _method(model: ModelConfig | None, quantization: str | None) -> str:
    stored = model.quantization.method if model and model.quantization else ""
    return quantization or stored


def _quantized_bytes(model: ModelConfig | None, quantization: str | None) -> Fraction | None:
    checkpoint = model.quantization if model else None
    if quantization in QUANTIZATION_BYTES:
        return QUANTIZATION_BYTES[quantization]
    if checkpoint is None:
        return None
    return _stored_bytes(checkpoint)


def _stored_bytes(checkpoint: Quantization) -> Fraction | None:
    if checkpoint.bits is not None:
        scales = Fraction(20, 8 * checkpoint.group_elements) if checkpoint.group_elements else Fraction(0)
        return Fraction(checkpoint.bits, 8) + scales
    return next((size for name, size in QUANTIZATION_BYTES.items() if name in checkpoint.method), None)
