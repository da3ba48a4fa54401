"""TLS and users by ``--web.config.file``, with real clients against a real daemon."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import bcrypt
import pytest
import trustme

from support.daemon_process import DaemonProcess, daemon_process
from support.web import serve_command
from vllm_advisor.errors import InputError
from vllm_advisor.web.web_config import load_web_config

PASSWORD = "correct horse"  # noqa: S105
CONFIG = """\
tls_server_config:
  cert_file: server.pem
  key_file: server.key
  min_version: TLS12
http_server_config:
  headers: {X-Frame-Options: deny}
basic_auth_users:
  alice: %s
"""


class Home:
    """A folder with an authority, a certificate and the file that names them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.config = folder / "web.yml"
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        self.issue(days=1)
        self.config.write_text(CONFIG % hashed)

    def issue(self, *, days: int) -> None:
        """Write a certificate that ends so many days from now."""
        leaf = self.authority.issue_cert(
            "localhost", "127.0.0.1", not_after=datetime.now(UTC) + timedelta(days)
        )
        leaf.private_key_pem.write_to_path(str(self.folder / "server.key"))
        leaf.cert_chain_pems[0].write_to_path(str(self.folder / "server.pem"))

    def client(self) -> ssl.SSLContext:
        """Return what trusts the authority and nobody else."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return the folder."""
    return Home(tmp_path)


@pytest.fixture
def daemon(home: Home) -> Iterator[DaemonProcess]:
    """Run a daemon with TLS and one user, in that folder."""
    with daemon_process(
        serve_command(home.folder, f"--web.config.file={home.config}"), home.folder
    ) as running:
        yield running


def status_of(
    daemon: DaemonProcess, home: Home, *, user: str | None = "alice", password: str = PASSWORD
) -> tuple[int, str]:
    """Ask for a page; return status and the challenge."""
    request = Request(daemon.url + "/-/healthy")  # noqa: S310 - always loopback
    if user is not None:
        request.add_header("Authorization", f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}")
    try:
        with urlopen(request, timeout=5, context=home.client()) as response:  # noqa: S310
            return response.status, response.headers["X-Frame-Options"]
    except HTTPError as error:
        with error:
            return error.code, error.headers["WWW-Authenticate"]


def test_user_with_password_comes_in_and_nobody_else(daemon: DaemonProcess, home: Home) -> None:
    """The right password passes, twice; a wrong one, another name and none are asked for both."""
    challenge = (401, 'Basic realm="vllm-advisor"')

    assert daemon.url.startswith("https://")
    assert status_of(daemon, home) == (200, "deny")
    assert status_of(daemon, home) == (200, "deny")
    assert status_of(daemon, home, password="wrong") == challenge  # noqa: S106
    assert status_of(daemon, home, password="x" * 100) == challenge
    assert status_of(daemon, home, user="bob") == challenge
    assert status_of(daemon, home, user=None) == challenge


def test_curl_comes_in(daemon: DaemonProcess, home: Home) -> None:
    """Curl verifies the certificate and logs in; without TLS it gets nothing."""
    authority = home.folder / "ca.pem"
    home.authority.cert_pem.write_to_path(str(authority))
    common = ["curl", "--silent", "--show-error", "--max-time", "5", "--user", f"alice:{PASSWORD}"]
    secure = subprocess.run(
        [*common, "--cacert", authority, daemon.url + "/-/healthy"],
        capture_output=True,
        text=True,
        check=False,
    )
    plain = subprocess.run(
        [*common, daemon.url.replace("https", "http") + "/-/healthy"], capture_output=True, check=False
    )

    assert secure.stdout == "vllm-advisor is healthy.\n"
    assert plain.returncode != 0


def test_expired_certificate_is_replaced_without_a_restart(home: Home) -> None:
    """A client refuses the expired certificate; once the file is another, the same daemon is trusted."""
    home.issue(days=-1)
    with daemon_process(
        serve_command(home.folder, f"--web.config.file={home.config}"), home.folder
    ) as daemon:
        with pytest.raises(URLError, match="certificate has expired"):
            status_of(daemon, home)
        home.issue(days=1)
        replaced = status_of(daemon, home)
        (home.folder / "server.pem").write_text("broken")
        kept = status_of(daemon, home)
        reported = [event["msg"] for event in daemon.log() if event["level"] == "warning"]

    assert replaced == kept == (200, "deny")
    assert "TLS and users cannot be read again, the earlier ones stay" in reported


def test_new_password_holds_at_once(daemon: DaemonProcess, home: Home) -> None:
    """A user's new password takes the place of the old one without a restart."""
    assert status_of(daemon, home)[0] == 200
    hashed = bcrypt.hashpw(b"another", bcrypt.gensalt(4)).decode()
    time.sleep(0.02)
    home.config.write_text(CONFIG % hashed)

    assert status_of(daemon, home)[0] == 401
    assert status_of(daemon, home, password="another")[0] == 200  # noqa: S106


def test_promtool_accepts_the_same_file(home: Home) -> None:
    """What this daemon takes, Prometheus' own checker takes too."""
    check = subprocess.run(
        ["promtool", "check", "web-config", home.config], capture_output=True, text=True, check=False
    )

    assert (check.returncode, "SUCCESS" in check.stdout + check.stderr) == (0, True)
    assert load_web_config(home.config).basic_auth_users.keys() == {"alice"}


BAD = {
    "not a hash": (
        "basic_auth_users:\n  alice: secret\n",
        2,
        "basic_auth_users.alice",
        "expected a bcrypt hash",
    ),
    "unknown key": ("tls: {}\n", 1, "tls", "unknown key"),
    "no key file": ("tls_server_config: {cert_file: a}\n", 1, "tls_server_config.key_file", "is required"),
    "old version": (
        "tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: SSL3\n",
        4,
        "tls_server_config.min_version",
        "expected 'TLS10'",
    ),
    "clients unverified": (
        "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}\n",
        1,
        "tls_server_config",
        "client_ca_file goes with",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_mistake_is_named(tmp_path: Path, name: str) -> None:
    """Each mistake is named with its line and key."""
    text, line, key, problem = BAD[name]
    path = tmp_path / "web.yml"
    path.write_text(text)

    with pytest.raises(InputError) as caught:
        load_web_config(path)

    assert (caught.value.line, caught.value.key) == (line, key)
    assert caught.value.problem.startswith(problem)


@pytest.mark.parametrize(
    ("flags", "status", "problem"),
    [
        (["--web.listen-address=nowhere"], 2, "--web.listen-address: expected host:port, not 'nowhere'"),
        (["--web.external-url=ftp://x"], 2, "--web.external-url: expected a URL or a path, not 'ftp://x'"),
        (["--web.config.file=/nothing.yml"], 1, "/nothing.yml: cannot be read: No such file or directory"),
    ],
)
def test_wrong_flag_is_one_line(tmp_path: Path, flags: list[str], status: int, problem: str) -> None:
    """A wrong flag, or a file that is not there, ends the start with one line that names it."""
    run = subprocess.run(
        [sys.executable, "-m", "vllm_advisor", *serve_command(tmp_path, *flags)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (status, f"vllm-advisor serve: {problem}\n")
