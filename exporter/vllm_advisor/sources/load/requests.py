"""What is asked of an endpoint: prompts and output lengths."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["RequestSource"]

_WORD_LETTERS = 4


@dataclass(slots=True)
class RequestSource:
    """Draws requests; their prompts are random words, so that no prefix cache helps.

    Args:
        lengths: (prompt, output) tokens to draw from, each pair as one request had them.
        longest_tokens: prompt and output together are cut to this, as the endpoint would.
        tokens_per_word: how the endpoint's tokenizer takes random words; learnt from its first answer.
        seed: of the drawing, so that a sweep can be repeated.
    """

    lengths: Sequence[tuple[int, int]]
    longest_tokens: int | None = None
    tokens_per_word: float = 1.5
    seed: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - load, not secrets

    def draw(self) -> tuple[str, int]:
        """Return a prompt and how many tokens to ask for."""
        prompt_tokens, output_tokens = self._random.choice(self.lengths)
        if self.longest_tokens is not None:
            output_tokens = max(2, min(output_tokens, self.longest_tokens // 2))
            prompt_tokens = min(prompt_tokens, self.longest_tokens - output_tokens)
        words = max(1, round(prompt_tokens / self.tokens_per_word))
        return " ".join(self._word() for _ in range(words)), max(2, output_tokens)

    def learn(self, words: int, prompt_tokens: int) -> None:
        """Take over how many tokens a prompt of random words came to."""
        self.tokens_per_word = max(0.1, prompt_tokens / words)

    def _word(self) -> str:
        return "".join(self._random.choices(string.ascii_lowercase, k=_WORD_LETTERS))
