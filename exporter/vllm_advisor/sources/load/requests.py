"""What is asked of an endpoint: prompts and output lengths."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["RequestSource"]

_WORD_LETTERS = 4
_ROOM_RATIO = 0.05
"""Left of the longest request, since random words come to a few tokens more or less."""


@dataclass(slots=True)
class RequestSource:
    """Draws requests; their prompts are random words, so that no prefix cache helps.

    Args:
        lengths: (prompt, output) tokens to draw from, each pair as one request had them.
        longest_tokens: prompt and output together are cut to this, as the endpoint would.
        tokens_per_word: how the endpoint's tokenizer takes random words.
        frame_tokens: what the endpoint adds to any prompt, such as a chat template's.
        seed: of the drawing, so that a sweep can be repeated.
    """

    lengths: Sequence[tuple[int, int]]
    longest_tokens: int | None = None
    tokens_per_word: float = 1.5
    frame_tokens: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - load, not secrets

    def draw(self) -> tuple[str, int]:
        """Return a prompt and how many tokens to ask for."""
        prompt_tokens, output_tokens = self._random.choice(self.lengths)
        if self.longest_tokens is not None:
            room_tokens = int(self.longest_tokens * (1 - _ROOM_RATIO))
            output_tokens = min(output_tokens, room_tokens // 2)
            prompt_tokens = min(prompt_tokens, room_tokens - output_tokens)
        words = round((prompt_tokens - self.frame_tokens) / self.tokens_per_word)
        return self.prompt(max(1, words)), max(2, output_tokens)

    def prompt(self, words: int) -> str:
        """Return a prompt of some random words."""
        return " ".join(self._word() for _ in range(words))

    def learn(self, few: tuple[int, int], many: tuple[int, int]) -> None:
        """Take over what two prompts, each as (words, tokens), came to."""
        self.tokens_per_word = max(0.1, (many[1] - few[1]) / (many[0] - few[0]))
        self.frame_tokens = max(0.0, few[1] - few[0] * self.tokens_per_word)

    def _word(self) -> str:
        return "".join(self._random.choices(string.ascii_lowercase, k=_WORD_LETTERS))
