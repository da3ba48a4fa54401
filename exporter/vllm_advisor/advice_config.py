"""When advice is given and when a published recommendation moves: every threshold, in one table each."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vllm_advisor.config_fields import Count, Ratio, Seconds, SecondsOrZero, Section

__all__ = ["StabilityConfig", "Thresholds"]

Factor = Annotated[float, Field(gt=1)]
"""How many fold."""


class Thresholds(Section):
    """The numbers at which each advice begins (docs/advice.md)."""

    steps_at_cap_ratio: Ratio = 0.1
    """The cap binds from this share of engine steps on."""
    pool_idle_ratio: Ratio = 0.7
    """The KV pool is idle below this use, at the 0.99 quantile of time."""
    memory_bound_ratio: Ratio = 0.05
    """Memory binds from this share of busy time on."""
    ceilings_apart_factor: Factor = 2.0
    """Ceilings are far apart from this ratio on."""
    oversized_factor: Factor = 2.0
    """max-model-len is oversized from this multiple of the recommended one on."""
    rejecting_ratio: Ratio = 0.001
    """A limit refuses or cuts too many from this share of requests on."""
    tpot_missed_ratio: Ratio = 0.05
    """The latency target is missed beyond this excess over it."""
    prediction_error_ratio: Ratio = 0.05
    """Arithmetic and engine disagree beyond this."""
    shape_factor: Factor = 1.5
    """The shape of traffic changed when typical lengths, or prompt over output, moved by this."""
    shape_requests: Count = 100
    """Fewer recent requests say nothing of the shape."""
    mixed_factor: Factor = 8.0
    """Two kinds of requests are apart from this ratio of their median lengths on."""
    mixed_share_ratio: Ratio = 0.02
    """Fewer than this share of requests are no kind of their own."""
    observed_seconds: Seconds = Field(10.0, alias="observed")
    """Busy time below which occupancy says nothing."""
    stale_seconds: Seconds = Field(300.0, alias="stale_after")
    """Evidence is stale after this long without a page or a log line."""


class StabilityConfig(Section):
    """How long a new value must have held before it is published.

    Only values beyond their own uncertainty count. What protects users, a lower max-num-seqs and a higher
    max-model-len, waits for minutes; the other direction for hours.
    """

    protect_after_seconds: SecondsOrZero = Field(180.0, alias="protect_after")
    relax_after_seconds: SecondsOrZero = Field(21600.0, alias="relax_after")
    tolerance_ratio: Ratio = Field(0.05, alias="tolerance")
    """Least difference of max-num-seqs that counts, over the published value."""
    keep_seconds: SecondsOrZero = Field(86400.0, alias="keep")
    """How long a value stays published while evidence is gathered anew after a restart with other flags."""
