"""A recommendation in the forms that people paste: flags, Helm values, a Kubernetes patch, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["FORMATS", "flags_of"]

Document = Mapping[str, Any]
"""One recommendation as `recommendation_json` gives it."""

_HELM_KEYS = {"--max-model-len": "maxModelLen", "--max-num-seqs": "maxNumSeqs"}


def flags_of(document: Document) -> dict[str, int]:
    """Return the recommended flags by name."""
    words = str(document["vllm_args"]).split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _args(document: Document) -> str:
    return str(document["vllm_args"])


def _helm(document: Document) -> str:
    """Write values of vLLM's production-stack chart; flags without a key of their own go to extraArgs."""
    flags = flags_of(document)
    lines = [
        "servingEngineSpec:",
        "  modelSpec:",
        f"    - name: {json.dumps(document['deployment'])}",
        "      vllmConfig:",
    ]
    lines += [f"        {_HELM_KEYS[flag]}: {value}" for flag, value in flags.items() if flag in _HELM_KEYS]
    extra = [f"{flag}={value}" for flag, value in flags.items() if flag not in _HELM_KEYS]
    if extra:
        lines.append(f"        extraArgs: {json.dumps(extra)}")
    return "\n".join(lines)


def _kubernetes(document: Document) -> str:
    """Write a JSON patch of a Deployment, for ``kubectl patch --type=json``.

    It appends to the first container's args, since a merge would replace them all; of a flag given twice vLLM
    takes the last.
    """
    path = "/spec/template/spec/containers/0/args/-"
    added = [f"{flag}={value}" for flag, value in flags_of(document).items()]
    return json.dumps([{"op": "add", "path": path, "value": value} for value in added], indent=2)


def _json(document: Document) -> str:
    return json.dumps(document, indent=2, allow_nan=False)


FORMATS: Mapping[str, Callable[[Document], str]] = {
    "args": _args,
    "helm": _helm,
    "kubernetes": _kubernetes,
    "json": _json,
}
"""How each format writes one recommendation."""
