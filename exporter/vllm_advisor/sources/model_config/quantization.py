"""How a checkpoint's weights are stored, in the words of each quantization library."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_advisor.sources.model_config.fields import Fields
from vllm_advisor.sources.model_config.model import Quantization

__all__ = ["quantization_of"]


def quantization_of(*sections: Fields) -> Quantization | None:
    """Return what the first of some sections of a config says of it, None where none does."""
    for section in sections:
        for name in ("quantization_config", "quantization_config_summary", "compression_config"):
            found = section.section(name)
            if found.given:
                return _read_quantization(_of_modelopt(found))
    return None


def _of_modelopt(found: Fields) -> Fields:
    """Flatten the form with a ``producer`` and an inner section."""
    inner = found.section("quantization").given
    if not inner:
        return found
    given = {"quant_method": "modelopt", **inner, **found.given}
    return Fields(given, {}, found.path, found.prefix)


def _read_quantization(found: Fields) -> Quantization:
    group = next(iter(found.section("config_groups").given.values()), None)
    weights = group.get("weights") if isinstance(group, Mapping) else None
    weights = weights if isinstance(weights, Mapping) else {}
    bits = found.get("bits", "w_bit") or weights.get("num_bits") or (8 if found.get("load_in_8bit") else None)
    elements = found.get("group_size", "q_group_size") or weights.get("group_size")
    method = str(found.get("quant_method") or "")
    algorithm = str(found.get("quant_algo") or "")
    return Quantization(
        method=f"{method} {algorithm}".strip().lower(),
        bits=bits if isinstance(bits, int) and bits > 0 else None,
        group_elements=elements if isinstance(elements, int) and elements > 0 else None,
        scale_bits=8 if weights.get("type") == "float" else 20,
        kv_cache_dtype="fp8" if _keeps_fp8(found, method) else None,
    )


def _keeps_fp8(found: Fields, method: str) -> bool:
    """Whether a checkpoint asks for an fp8 cache.

    Source: vLLM ``get_kv_cache_quant_algo_string`` for ModelOpt; ``layers/attention/attention.py`` for
    compressed-tensors, whose scheme is taken for fp8 whatever it says.
    """
    scheme = found.get("kv_cache_scheme")
    if method.replace("_", "-") == "compressed-tensors":
        return isinstance(scheme, Mapping)
    if not method.startswith("modelopt"):
        return False
    if isinstance(scheme, Mapping):
        return scheme.get("num_bits") == 8 and scheme.get("type") == "float" and not scheme.get("dynamic")
    return str(found.get("kv_cache_quant_algo")).lower() == "fp8"
