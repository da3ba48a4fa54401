"""How advice names the flags to type: one value and one form, as the recommended command line has them."""

from __future__ import annotations

from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.recommended_form import cap_flags, padding_note

__all__ = ["set_cap", "typed_cap"]


def typed_cap(case: Case, sequences: int) -> str:
    """Return the flags that admit so many sequences, as the engines' version knows them."""
    return cap_flags(sequences, case.snapshot.facts.vllm_version)


def set_cap(case: Case, sequences: int) -> str:
    """Tell to set them, and what CUDA graphs make of that number."""
    return f"Set {typed_cap(case, sequences)}{padding_note(sequences)}"
