"""How much memory a model's weights take on one GPU."""

from __future__ import annotations

import math
import re
from dataclasses import replace
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

_PADDED_ELEMENTS = 256
"""MXFP4 kernels pad experts to multiples of this: inputs alone on Hopper, both ways by Marlin.

gpt-oss-120b, whose width is 2,880, took 64.38 GiB with one padding and 65.97 with the other, of 60.7 stored.
"""

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
        basis = f"{model.checkpoint_bytes / 1e9:.4g} GB of checkpoint"
        size_bytes = model.checkpoint_bytes * _share_of_one_gpu(model, flags)
        return _padded(size_bytes, model, flags, quantization, basis)
    if not model.weights.missing:
        basis = f"{model.weights.total / 1e9:.4g} billion parameters counted"
        return _padded(_counted_bytes(model, flags, quantization), model, flags, quantization, basis)
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

    The first pipeline stage holds the embedding and the last one the output head. Experts are shared by
    data-parallel engines too, with or without expert parallelism (vLLM ``fused_moe/config.py``,
    ``FusedMoEParallelConfig.make``).
    """
    weights, dense_bytes = model.weights, float(_dtype_bytes(model, flags))
    experts_bytes = float(_quantized_bytes(model, quantization) or dense_bytes)
    experts_only = _method(model, quantization).startswith("mxfp4")
    linear_bytes = dense_bytes if experts_only else experts_bytes
    experts = weights.experts * experts_bytes / flags.data_parallel_size
    shared = (weights.attention + weights.mlp) * linear_bytes + experts
    stages = flags.pipeline_parallel_size
    tables = weights.embedding / min(stages, 2) + weights.tower
    return (
        shared / stages + tables * dense_bytes
    ) / flags.tensor_parallel_size + weights.replicated * linear_bytes / stages


def _share_of_one_gpu(model: ModelConfig, flags: EngineFlags) -> float:
    ranks = flags.tensor_parallel_size * flags.pipeline_parallel_size
    alone = replace(flags, tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1)
    whole_bytes = 0 if model.weights.missing else _counted_bytes(model, alone, None)
    return _counted_bytes(model, flags, None) / whole_bytes if whole_bytes else 1 / ranks


def _padded(
    size_bytes: float, model: ModelConfig, flags: EngineFlags, quantization: str | None, basis: str
) -> Estimate:
    """Add what MXFP4 kernels pad experts with; between none and both ways, most likely one."""
    if not _method(model, quantization).startswith("mxfp4") or not model.hidden_size:
        return Estimate.around(size_bytes, 0.97, 1.06, basis)
    ranks = flags.tensor_parallel_size * flags.pipeline_parallel_size * flags.data_parallel_size
    experts_bytes = model.weights.experts * float(QUANTIZATION_BYTES["mxfp4"]) / ranks
    expert_ranks = flags.tensor_parallel_size * flags.data_parallel_size
    width = (model.expert_width or model.intermediate_size or model.hidden_size) / expert_ranks
    inputs = _rounded_up(model.hidden_size) / model.hidden_size
    both = inputs * _rounded_up(width) / width
    return Estimate(
        int(size_bytes + experts_bytes * (inputs - 1)),
        int(size_bytes * 0.97),
        int((size_bytes + experts_bytes * (both - 1)) * 1.06),
        f"{basis}, experts padded to multiples of {_PADDED_ELEMENTS}",
    )


def _rounded_up(elements: float) -> int:
    return math.ceil(elements / _PADDED_ELEMENTS) * _PADDED_ELEMENTS


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
        scales = Fraction(checkpoint.scale_bits, 8 * (checkpoint.group_elements or 1))
        return Fraction(checkpoint.bits, 8) + (scales if checkpoint.group_elements else 0)
    return next((size for name, size in QUANTIZATION_BYTES.items() if name in checkpoint.method), None)
