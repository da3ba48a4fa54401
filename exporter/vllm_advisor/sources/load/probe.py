"""The first requests of a sweep: what the endpoint takes, and how long random words are to it."""

from __future__ import annotations

from dataclasses import replace

import aiohttp

from vllm_advisor.errors import EvidenceError
from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.load.requests import RequestSource
from vllm_advisor.sources.load.stream import Outcome, RefusedError, Timed, stream

__all__ = ["probe"]

_OUTPUT_TOKENS = 2
_FEW_WORDS, _MANY_WORDS = 2, 64
_UNKNOWN_PARAMETER_STATUSES = {400, 422}
_DIALECTS = ((True, True), (False, True), (True, False), (False, False))
"""Of ``ignore_eos`` and ``stream_options``, which not every server takes, what is left in."""


async def probe(
    session: aiohttp.ClientSession, endpoint: Endpoint, source: RequestSource, notes: list[str]
) -> Endpoint:
    """Return the endpoint as it is to be spoken to, having taught the source its tokenizer.

    Args:
        session: to ask with.
        endpoint: as the user named it.
        source: of the prompts.
        notes: what a reader of the sweep should know is added.

    Raises:
        RefusedError: the server refuses the request for what it is.
        EvidenceError: the server cannot be reached, or its first answer is no stream of tokens.
    """
    spoken, few = await _first_answer(session, endpoint, source.prompt(_FEW_WORDS))
    if endpoint.ignore_eos and not spoken.ignore_eos:
        notes.append("The endpoint refuses ignore_eos: outputs end where the model ends them.")
    if few.prompt_tokens is None:
        notes.append(
            "The endpoint reports no usage: tokens were counted as chunks, "
            "but for outputs that ran to their limit."
        )
        return spoken
    many_words = max(_FEW_WORDS + 1, min(_MANY_WORDS, (source.longest_tokens or 1024) // 16))
    many = await stream(session, spoken, source.prompt(many_words), _OUTPUT_TOKENS)
    if (many_tokens := many.prompt_tokens or 0) > few.prompt_tokens:
        source.learn((_FEW_WORDS, few.prompt_tokens), (many_words, many_tokens))
    return spoken


async def _first_answer(
    session: aiohttp.ClientSession, endpoint: Endpoint, prompt: str
) -> tuple[Endpoint, Timed]:
    refusals = []
    for ignore_eos, asks_usage in _DIALECTS:
        if ignore_eos and not endpoint.ignore_eos:
            continue
        spoken = replace(endpoint, ignore_eos=ignore_eos, asks_usage=asks_usage)
        try:
            return spoken, await _answer(session, spoken, prompt)
        except RefusedError as error:
            refusals.append(error)
            if error.status not in _UNKNOWN_PARAMETER_STATUSES:
                break
    raise refusals[0]


async def _answer(session: aiohttp.ClientSession, endpoint: Endpoint, prompt: str) -> Timed:
    timed = await stream(session, endpoint, prompt, _OUTPUT_TOKENS)
    if timed.outcome is Outcome.DONE:
        return timed
    if timed.outcome is Outcome.RATE_LIMITED:
        raise EvidenceError(f"the endpoint refuses the first requests already: it {timed.problem}")
    raise EvidenceError(f"the endpoint's first answer is no stream of tokens: {timed.problem}")
