"""Where engines are found besides lists: discovery and the metrics store, with Prometheus' own keys."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from vllm_advisor.config_fields import Name, Seconds, SecondsOrZero, Section
from vllm_advisor.config_paths import FilePath, GlobPattern

__all__ = [
    "Authorization",
    "BasicAuth",
    "Discovery",
    "DnsSdConfig",
    "FileSdConfig",
    "HttpClientConfig",
    "HttpSdConfig",
    "KubernetesSdConfig",
    "PrometheusConfig",
    "RelabelConfig",
    "TlsConfig",
]


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"expected an address such as http://host:9090, not {text!r}")
    if parts.username is not None:
        raise ValueError("user and password belong in basic_auth: an address is shown and logged")
    return text.rstrip("/")


def _is_no_secret(header: str) -> str:
    if header.lower() in {"authorization", "proxy-authorization", "cookie"}:
        raise ValueError(f"{header} belongs in basic_auth or authorization: headers are shown")
    return header


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return pattern


def _selects(selector: str) -> str:
    inner = selector.strip().removeprefix("{").removesuffix("}").strip().rstrip(",")
    if not re.fullmatch(rf"{_MATCHER}(\s*,\s*{_MATCHER})*", inner):
        raise ValueError(f'expected label matchers such as {{job="vllm"}}, not {selector!r}')
    return inner


_MATCHER = r"[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*\"([^\"\\]|\\.)*\""

HttpUrl = Annotated[Name, AfterValidator(_http_url)]
HeaderName = Annotated[Name, AfterValidator(_is_no_secret)]
Regex = Annotated[str, AfterValidator(_compiles)]
Selector = Annotated[Name, AfterValidator(_selects)]
"""Label matchers; the braces around them are dropped."""


class BasicAuth(Section):
    """A user name, and a file that holds the password."""

    username: Name
    password_path: FilePath = Field(alias="password_file")


class Authorization(Section):
    """What the ``Authorization`` header says; the credentials lie in a file."""

    type: Name = "Bearer"
    credentials_path: FilePath = Field(alias="credentials_file")


class TlsConfig(Section):
    """Whom to trust, and who we are."""

    ca_path: FilePath | None = Field(None, alias="ca_file")
    cert_path: FilePath | None = Field(None, alias="cert_file")
    key_path: FilePath | None = Field(None, alias="key_file")
    insecure_skip_verify: bool = False


class HttpClientConfig(Section):
    """How a server is asked."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    tls_config: TlsConfig = TlsConfig()
    headers: dict[HeaderName, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_authorization(self) -> HttpClientConfig:
        if self.basic_auth and self.authorization:
            raise ValueError("give either basic_auth or authorization")
        return self


class FileSdConfig(Section):
    """Files with target lists; a change is seen within seconds."""

    files: Annotated[tuple[GlobPattern, ...], Field(min_length=1)]
    refresh_interval_seconds: Seconds = Field(300.0, alias="refresh_interval")

    @model_validator(mode="after")
    def _known_names(self) -> FileSdConfig:
        for pattern in self.files:
            if not re.fullmatch(r"[^*]*(\*[^/]*)?\.(json|yml|yaml)", pattern):
                raise ValueError(f"files: expected a path such as targets/*.json, not {pattern!r}")
        return self


class HttpSdConfig(HttpClientConfig):
    """A server that answers with a target list."""

    url: HttpUrl
    refresh_interval_seconds: Seconds = Field(60.0, alias="refresh_interval")


class DnsSdConfig(Section):
    """Names whose records are the targets."""

    names: Annotated[tuple[Name, ...], Field(min_length=1)]
    type: Literal["SRV", "A", "AAAA"] = "SRV"
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    refresh_interval_seconds: Seconds = Field(30.0, alias="refresh_interval")

    @model_validator(mode="after")
    def _port_of_addresses(self) -> DnsSdConfig:
        if self.type != "SRV" and self.port is None:
            raise ValueError(f"port is required for records of type {self.type}")
        return self


KubernetesRole = Literal["pod", "endpointslice"]


class KubernetesNamespaces(Section):
    """Namespaces to look in, every one unless given."""

    own_namespace: bool = False
    names: tuple[Name, ...] = ()


class KubernetesSelector(Section):
    """Which objects of a kind to look at, as the API takes it."""

    role: KubernetesRole
    label: str = ""
    field: str = ""


class KubernetesSdConfig(HttpClientConfig):
    """Pods or endpoints of a cluster; without ``api_server`` the one we run in, as our service account."""

    role: KubernetesRole
    api_server: HttpUrl | None = None
    namespaces: KubernetesNamespaces = KubernetesNamespaces()
    selectors: tuple[KubernetesSelector, ...] = ()


class RelabelConfig(Section):
    """One step on a found target's labels."""

    source_labels: tuple[Name, ...] = ()
    separator: str = ";"
    regex: Regex = "(.*)"
    target_label: Name | None = None
    replacement: str = "$1"
    action: Literal["replace", "keep", "drop"] = "replace"

    @model_validator(mode="after")
    def _fits_its_action(self) -> RelabelConfig:
        if self.action == "replace" and self.target_label is None:
            raise ValueError("target_label is required to replace")
        if self.action != "replace" and not self.source_labels:
            raise ValueError(f"source_labels are required to {self.action}")
        return self


class PrometheusConfig(HttpClientConfig):
    """A metrics store that scrapes the engines: Prometheus, Thanos, Mimir, VictoriaMetrics.

    ``interval`` is how often it is asked, ``delay`` how long after a scrape its samples are all there;
    ``recorded`` reads what ``rules/vllm-intervals.yml`` records once a minute instead of every sample.
    """

    url: HttpUrl
    selector: Selector
    interval_seconds: Seconds = Field(15.0, alias="interval")
    delay_seconds: SecondsOrZero = Field(15.0, alias="delay")
    timeout_seconds: Seconds = Field(60.0, alias="timeout")
    recorded: bool = False


class Discovery(Section):
    """The part of a deployment that says how its engines are found."""

    file_sd_configs: tuple[FileSdConfig, ...] = ()
    http_sd_configs: tuple[HttpSdConfig, ...] = ()
    dns_sd_configs: tuple[DnsSdConfig, ...] = ()
    kubernetes_sd_configs: tuple[KubernetesSdConfig, ...] = ()
    relabel_configs: tuple[RelabelConfig, ...] = ()
    prometheus: PrometheusConfig | None = None

    @property
    def discovers(self) -> bool:
        """Whether targets are found while the daemon runs."""
        return bool(
            self.file_sd_configs or self.http_sd_configs or self.dns_sd_configs or self.kubernetes_sd_configs
        )
