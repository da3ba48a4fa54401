"""Where an engine's doors are, from a target as people write it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

__all__ = [
    "base_url",
    "host_and_port",
    "is_address",
    "metrics_url",
    "without_password",
    "without_passwords",
]

_PORTS = {"http": 80, "https": 443}
_CREDENTIALS = re.compile(r"^(\w[\w+.-]*://)?[^/?#]*@")
_QUOTED_CREDENTIALS = re.compile(r"((?<=not ')|(?<=not \"))(\w[\w+.-]*://)?.*@", re.DOTALL)
_INNER_CREDENTIALS = re.compile(r"(\w[\w+.-]*://)\S*@")


def metrics_url(target: str) -> str:
    """Return the page's address for ``host:port``, ``http://host:port`` or a whole URL."""
    parts = urlsplit(target if "://" in target else f"http://{target}")
    path = parts.path if parts.path.strip("/") else "/metrics"
    return urlunsplit(parts._replace(path=path, fragment=""))


def is_address(target: str) -> bool:
    """Tell whether a target is ``host:port`` or a whole URL, and nothing else."""
    try:
        url = urlsplit(metrics_url(target))
        can_be_asked = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
    return can_be_asked and not re.search(r"\s", target)


def host_and_port(url: str) -> str:
    """Return who answers at a page's address, as a store's ``instance`` label has it: ``host:port``."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2].lower()
    return netloc if parts.port is not None else f"{netloc}:{_PORTS.get(parts.scheme, 80)}"


def base_url(target: str) -> str:
    """Return the address before ``/metrics``, under which ``/v1/models`` stands."""
    parts = urlsplit(metrics_url(target))
    path = parts.path.rstrip("/").removesuffix("/metrics")
    return urlunsplit(parts._replace(path=path, query="")).rstrip("/")


def without_password(target: str) -> str:
    """Return an address that may be shown, in the form that it has."""
    return _CREDENTIALS.sub(r"\1", target)


def without_passwords(sentence: str) -> str:
    """Return a sentence with no user and password in an address that it quotes, however broken that is."""
    return _INNER_CREDENTIALS.sub(r"\1", _QUOTED_CREDENTIALS.sub(r"\2", sentence))
