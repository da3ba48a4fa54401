"""How large a checkpoint is, where its files lie beside the config."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["checkpoint_bytes"]

_LIMIT_BYTES = 64_000_000


def checkpoint_bytes(folder: Path) -> int | None:
    """Return the bytes of a model's weights on disk, None where they are not in the folder.

    The index of a sharded checkpoint states them; else the safetensors files are added up. Copies in another
    layout, which some publishers put beside their shards, are left out.
    """
    stated = _stated_by_index(folder / "model.safetensors.index.json")
    if stated is not None:
        return stated
    try:
        total_bytes = sum(file.stat().st_size for file in folder.glob("model*.safetensors"))
    except OSError:
        return None
    return total_bytes or None


def _stated_by_index(index: Path) -> int | None:
    try:
        if index.stat().st_size > _LIMIT_BYTES:
            return None
        total_bytes = json.loads(index.read_bytes())["metadata"]["total_size"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return total_bytes if isinstance(total_bytes, int) and total_bytes > 0 else None
