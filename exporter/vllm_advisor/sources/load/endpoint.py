"""An OpenAI-compatible endpoint, and how it is spoken to."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Any

from vllm_advisor.addresses import base_url

__all__ = ["Endpoint"]

_DOOR = re.compile(r"/v1(/(chat/)?completions|/models)?$")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and as what.

    Args:
        url: the server, with or without ``/v1`` and what stands below it.
        model: the model's name.
        chat: chat completions rather than completions.
        api_key: sent as a bearer token; never shown.
        ignore_eos: ask for outputs of exactly the length asked (vLLM's own parameter).
        asks_usage: ask for the count of tokens at a stream's end (``stream_options``).
        tls: whom to trust; True for the system's authorities.
    """

    url: str
    model: str
    chat: bool = False
    api_key: str | None = None
    ignore_eos: bool = True
    asks_usage: bool = True
    tls: ssl.SSLContext | bool = True

    @property
    def base(self) -> str:
        """The address under which ``/v1`` and ``/metrics`` stand."""
        return base_url(_DOOR.sub("", self.url.rstrip("/")))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    @property
    def requests_url(self) -> str:
        """The address that requests are sent to."""
        return f"{self.base}/v1/{'chat/completions' if self.chat else 'completions'}"

    def body(self, prompt: str, output_tokens: int) -> dict[str, Any]:
        """Return a request's body: streamed, of a fixed length and with usage at the end where it may be."""
        content = {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        fixed = {"ignore_eos": True} if self.ignore_eos else {}
        usage = {"stream_options": {"include_usage": True}} if self.asks_usage else {}
        return {"model": self.model, **content, "stream": True, "max_tokens": output_tokens, **usage, **fixed}
