"""``--web.config.file``: TLS, users and headers, in the format of Prometheus exporters.

The keys are those of exporter-toolkit's ``docs/web-configuration.md``; what this server cannot do is refused
rather than passed over.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from vllm_advisor.config_fields import Name, Section
from vllm_advisor.config_file import load_file
from vllm_advisor.config_paths import FilePath
from vllm_advisor.errors import InputError

__all__ = ["TlsServerConfig", "WebConfig", "load_web_config", "tls_context"]

_BCRYPT = re.compile(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}")
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_CERTIFICATES = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}

TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]
Header = Literal[
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
]


def _is_bcrypt(hashed: str) -> str:
    if not _BCRYPT.fullmatch(hashed):
        raise ValueError("expected a bcrypt hash, such as `htpasswd -nBC 10 NAME` prints")
    return hashed


class TlsServerConfig(Section):
    """How connections are encrypted."""

    cert_file: FilePath
    key_file: FilePath
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = (
        "NoClientCert"
    )
    client_ca_file: FilePath | None = None
    min_version: TlsVersion = "TLS12"
    max_version: TlsVersion = "TLS13"

    @model_validator(mode="after")
    def _authority_with_clients(self) -> TlsServerConfig:
        if (self.client_auth_type == "NoClientCert") != (self.client_ca_file is None):
            raise ValueError(
                "client_ca_file goes with a client_auth_type that verifies, and the other way round"
            )
        return self

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file it names."""
        return tuple(file for file in (self.cert_file, self.key_file, self.client_ca_file) if file)


class HttpServerConfig(Section):
    """Headers of every answer; HTTP/2 is not spoken, whatever ``http2`` allows."""

    http2: bool = True
    headers: dict[Header, str] = Field(default_factory=dict)


class WebConfig(Section):
    """The whole file."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: dict[Name, Annotated[str, AfterValidator(_is_bcrypt)]] = Field(default_factory=dict)


def load_web_config(path: Path) -> WebConfig:
    """Read the file.

    Raises:
        InputError: it cannot be read, or something in it is wrong.
    """
    return load_file(path, WebConfig)


def tls_context(config: TlsServerConfig) -> ssl.SSLContext:
    """Load certificate and key.

    Raises:
        InputError: one of the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    file, key = config.cert_file, "cert_file"
    try:
        context.load_cert_chain(config.cert_file, config.key_file)
        if config.client_ca_file:
            file, key = config.client_ca_file, "client_ca_file"
            context.load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be used: {error}", path=file, key=f"tls_server_config.{key}") from error
    context.verify_mode = _CLIENT_CERTIFICATES[config.client_auth_type]
    return context
