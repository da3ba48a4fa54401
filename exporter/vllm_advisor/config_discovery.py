"""Where engines are found besides lists: discovery and the metrics store, with Prometheus' own keys."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vllm_advisor.config_fields import Count, Name, Seconds, SecondsOrZero, Section
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
    "python_regex",
]


def _http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        can_be_asked = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        can_be_asked = False
    if not can_be_asked:
        raise ValueError(f"expected an address such as http://host:9090, not {text!r}")
    if parts.username is not None:
        raise ValueError("user and password belong in basic_auth: an address is shown and logged")
    return text


def _is_no_secret(header: str) -> str:
    if header.lower() in {"authorization", "proxy-authorization", "cookie"}:
        raise ValueError(f"{header} belongs in basic_auth or authorization: headers are shown")
    return header


def _base_url(text: str) -> str:
    if urlsplit(text).query:
        raise ValueError(f"expected an address without a query, not {text!r}")
    return text.rstrip("/")


def python_regex(pattern: str) -> str:
    """Return a regular expression of Prometheus' kind (RE2) as Python writes it.

    Classes such as ``[[:digit:]]`` and the end of the text are spelt otherwise; the rest means the same.
    """
    return _RE2_ONLY.sub(lambda it: _AS_PYTHON.get(it[0], it[0]), pattern)


def _compiles(pattern: str) -> str:
    try:
        re.compile(python_regex(pattern))
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return pattern


def _as_written(value: object) -> object:
    """Take a whole number or a truth value of YAML for the text that it is in Prometheus."""
    return str(value).lower() if isinstance(value, int) else value


def _in_small_letters(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _selects(selector: str) -> str:
    inner = selector.strip().removeprefix("{").removesuffix("}").strip().rstrip(",")
    if not re.fullmatch(rf"{_MATCHER}(\s*,\s*{_MATCHER})*", inner):
        raise ValueError(f'expected label matchers such as {{job="vllm"}}, not {selector!r}')
    return inner


_MATCHER = r"[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*\"([^\"\\]|\\.)*\""

_AS_PYTHON = {
    r"\z": r"\Z",
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:ascii:]": r"\x00-\x7F",
    "[:blank:]": r"\t ",
    "[:cntrl:]": r"\x00-\x1F\x7F",
    "[:digit:]": "0-9",
    "[:graph:]": "!-~",
    "[:lower:]": "a-z",
    "[:print:]": " -~",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:space:]": r"\t\n\v\f\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}
_RE2_ONLY = re.compile(r"\\.|\[:[a-z]+:\]", re.DOTALL)

HttpUrl = Annotated[Name, AfterValidator(_http_url)]
BaseUrl = Annotated[HttpUrl, AfterValidator(_base_url)]
"""An address that paths are put after."""
HeaderName = Annotated[Name, AfterValidator(_is_no_secret)]
Text = Annotated[str, BeforeValidator(_as_written)]
Regex = Annotated[Text, AfterValidator(_compiles)]
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
            if not re.fullmatch(r"[^*]*(\*[^/]*)?\.(json|yml|yaml|JSON|YML|YAML)", pattern):
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
    api_server: BaseUrl | None = None
    namespaces: KubernetesNamespaces = KubernetesNamespaces()
    selectors: tuple[KubernetesSelector, ...] = ()


RelabelAction = Annotated[
    Literal[
        "replace",
        "keep",
        "drop",
        "keepequal",
        "dropequal",
        "hashmod",
        "labelmap",
        "labeldrop",
        "labelkeep",
        "lowercase",
        "uppercase",
    ],
    BeforeValidator(_in_small_letters),
]
_LOOK_AT_LABELS = frozenset({"keep", "drop", "keepequal", "dropequal", "hashmod", "lowercase", "uppercase"})
_MAKE_A_LABEL = frozenset({"replace", "keepequal", "dropequal", "hashmod", "lowercase", "uppercase"})


class RelabelConfig(Section):
    """One step on a found target's labels."""

    source_labels: tuple[Name, ...] = ()
    separator: Text = ";"
    regex: Regex = "(.*)"
    modulus: Count | None = None
    target_label: Name | None = None
    replacement: Text = "$1"
    action: RelabelAction = "replace"

    @model_validator(mode="after")
    def _fits_its_action(self) -> RelabelConfig:
        if self.action in _MAKE_A_LABEL and self.target_label is None:
            raise ValueError(f"target_label is required to {self.action}")
        if self.action in _LOOK_AT_LABELS and not self.source_labels:
            raise ValueError(f"source_labels are required to {self.action}")
        if self.action == "hashmod" and self.modulus is None:
            raise ValueError("modulus is required to hashmod")
        return self


class PrometheusConfig(HttpClientConfig):
    """A metrics store that scrapes the engines: Prometheus, Thanos, Mimir, VictoriaMetrics.

    ``interval`` is how often it is asked, ``delay`` how long after a scrape its samples are all there;
    ``recorded`` reads what ``rules/vllm-intervals.yml`` records once a minute instead of every sample.
    """

    url: BaseUrl
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
