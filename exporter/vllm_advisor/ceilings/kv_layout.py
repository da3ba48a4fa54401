"""How vLLM groups a model's layers into one pool of blocks, and what a request takes from it.

The rules are those of vLLM's ``v1/core/kv_cache_utils.py`` (``get_kv_cache_groups``,
``_get_kv_cache_groups_uniform_page_size``, ``unify_kv_cache_spec_page_size``) and
``platforms/interface.py`` (``_align_hybrid_block_size``).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.engine_version import (
    HYBRID_PREFIX_CACHING,
    STATE_CHECKPOINT,
    WIDE_GROUPS,
    WIDER_GROUPS,
    Version,
)
from vllm_advisor.ceilings.kv_group import KvGroup, KvLayout
from vllm_advisor.ceilings.kv_pages import Keeps, LayerSpec, layer_specs
from vllm_advisor.sources.model_config import ModelConfig

__all__ = ["kv_layout"]

_BLOCK_TOKENS = 16
_LATENT_BLOCK_TOKENS = 64


@dataclass(frozen=True, slots=True)
class _Paged:
    """A layer with its page: one block of one layer."""

    spec: LayerSpec
    block_size_tokens: int
    page_bytes: int

    @property
    def kind(self) -> tuple[object, ...]:
        """What layers of one group have in common."""
        spec = self.spec
        return spec.keeps, spec.token_bytes, spec.reach_tokens, spec.state_bytes, self.block_size_tokens


def kv_layout(model: ModelConfig, flags: EngineFlags) -> KvLayout:
    """Return how an engine with these flags lays a model's cache out."""
    return _layout(model, replace(flags, utilization=None, max_num_seqs=None, num_gpu_blocks_override=None))


@lru_cache(maxsize=512)
def _layout(model: ModelConfig, flags: EngineFlags) -> KvLayout:
    """Work it out once for all flags that size the pool and do not shape it, as misreadings try many."""
    specs = layer_specs(model, flags)
    block_size = _block_size(specs, flags)
    paged = [_page(spec, block_size) for spec in specs]
    stages = _stages(model.layers, min(flags.pipeline_parallel_size, model.layers))
    if _is_one_group(specs):
        groups = [paged]
        bytes_per_block = max(
            sum(layer.page_bytes for layer in paged if layer.spec.layer in stage) for stage in stages
        )
    else:
        paged = _equal_pages(paged)
        groups = _groups(paged, _widening(flags.version))
        bytes_per_block = paged[0].page_bytes * max(_width(groups, stage) for stage in stages)
    state_only = all(spec.keeps is Keeps.STATE for spec in specs)
    return KvLayout(
        groups=tuple(_group(layers, flags, state_only=state_only) for layers in groups),
        bytes_per_block=bytes_per_block,
        block_size_tokens=block_size,
        rank_token_bytes=max(
            sum(spec.token_bytes for spec in specs if spec.layer in stage) for stage in stages
        ),
        model_token_bytes=sum(spec.token_bytes for spec in specs) * flags.tensor_parallel_size,
        in_flight_tokens=flags.in_flight_tokens,
        context_ranks=flags.decode_context_parallel_size,
        version=flags.version,
    )


def _block_size(specs: Sequence[LayerSpec], flags: EngineFlags) -> int:
    """Return the attention block; beside states it grows until one page holds a whole state."""
    attention = [spec for spec in specs if spec.keeps is not Keeps.STATE]
    state_bytes = max((spec.state_bytes for spec in specs), default=0)
    latent = any(spec.keeps is Keeps.LATENT for spec in attention)
    given = flags.block_size_tokens or (_LATENT_BLOCK_TOKENS if latent else _BLOCK_TOKENS)
    if not attention or not state_bytes:
        return given
    unit = max(_BLOCK_TOKENS, given)
    return unit * math.ceil(state_bytes / (unit * attention[0].token_bytes))


def _page(spec: LayerSpec, block_size_tokens: int) -> _Paged:
    return _Paged(spec, block_size_tokens, spec.state_bytes or spec.token_bytes * block_size_tokens)


def _equal_pages(paged: Sequence[_Paged]) -> list[_Paged]:
    """Bring smaller pages to the largest: by a larger block where it divides, else by padding."""
    largest = max(layer.page_bytes for layer in paged)
    equal = []
    for layer in paged:
        divides = not layer.spec.state_bytes and largest % layer.page_bytes == 0
        factor = largest // layer.page_bytes if divides else 1
        equal.append(_Paged(layer.spec, layer.block_size_tokens * factor, largest))
    return equal


def _is_one_group(specs: Sequence[LayerSpec]) -> bool:
    """Whether all layers take blocks alike: sizes may differ, windows and states may not."""
    if {spec.keeps for spec in specs} <= {Keeps.FULL, Keeps.LATENT}:
        return True
    return len({(spec.keeps, spec.reach_tokens, spec.state_bytes) for spec in specs}) == 1


def _widening(version: Version) -> float:
    """Return below which ratio of layers the larger kind sets the width of groups, 1 for never."""
    if version >= WIDER_GROUPS:
        return 1.5
    return 1.25 if version >= WIDE_GROUPS else 1.0


def _groups(paged: Sequence[_Paged], widening: float) -> list[list[_Paged]]:
    kinds = defaultdict[tuple[object, ...], list[_Paged]](list)
    for layer in paged:
        kinds[layer.kind].append(layer)
    sizes = [len(layers) for layers in kinds.values()]
    width = max(sizes) if max(sizes) < min(sizes) * widening else min(sizes)
    groups = []
    for layers in kinds.values():
        count = math.ceil(len(layers) / width)
        groups += [layers[index::count] for index in range(count)]
    return groups


def _width(groups: Sequence[Sequence[_Paged]], stage: range) -> int:
    return max(sum(layer.spec.layer in stage for layer in group) for group in groups)


def _stages(layers: int, stages: int) -> list[range]:
    """Split layers over pipeline stages; what is left over goes to the stages before the last.

    Source: vLLM ``distributed/utils.py:get_pp_indices``. A drafter's layers, numbered from ``layers``, are
    the last stage's.
    """
    sizes = [layers // stages] * stages
    for index in range(layers % stages):
        sizes[-2 - index if stages > 1 else 0] += 1
    starts = [sum(sizes[:index]) for index in range(stages)]
    ends = [*starts[1:], layers * 2 + 1]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _group(layers: Sequence[_Paged], flags: EngineFlags, *, state_only: bool) -> KvGroup:
    spec = Counter(layer.spec for layer in layers).most_common(1)[0][0]
    return KvGroup(
        keeps=spec.keeps,
        layers=len(layers),
        block_size_tokens=layers[0].block_size_tokens,
        page_bytes=layers[0].page_bytes,
        reach_tokens=spec.reach_tokens,
        state_blocks=_state_blocks(spec, flags, state_only=state_only) if spec.state_bytes else 0,
    )


def _state_blocks(spec: LayerSpec, flags: EngineFlags, *, state_only: bool) -> int:
    """Blocks of one sequence's state: one, and with prefix caching one more to copy from."""
    caching = flags.prefix_caching
    if caching is None:
        caching = flags.version >= HYBRID_PREFIX_CACHING and not state_only
    copies = 2 + (spec.checkpointed and flags.version >= STATE_CHECKPOINT) if caching else 1
    return copies + flags.speculative_tokens
