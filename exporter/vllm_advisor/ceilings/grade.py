"""What a number rests on."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Grade", "weakest"]


class Grade(StrEnum):
    """How well the evidence carries a number, best first (design page, "JSON")."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    ASSUMED = "assumed"
    NONE = "none"


def weakest(*grades: Grade) -> Grade:
    """Return the worst of some grades, which is the grade of what is worked out from all of them."""
    return max(grades, key=list(Grade).index)
