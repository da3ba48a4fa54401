import subprocess
import time
from pathlib import Path

from support.daemon_process import DaemonProcess, daemon_process

FLAGS = ("max_model_len", "max_num_seqs")


def _grades(daemon: DaemonProcess) -> dict[str, str]:
    family = daemon.metrics().get("recommendation_grade")
    samples = family.samples if family else []
    return {sample.labels["flag"]: sample.labels["grade"] for sample in samples if sample.value == 1}


def test_both_flags_are_measured_within_a_minute(tmp_path: Path) -> None:
    """The demo brings both recommendations, both ceilings and the binding one, on a page promtool accepts."""
    start = time.monotonic()
    with daemon_process(["demo"], tmp_path) as daemon:
        while time.monotonic() - start < 60 and _grades(daemon) != dict.fromkeys(FLAGS, "measured"):
            time.sleep(1)
        grades, page, metrics = _grades(daemon), daemon.get("/metrics"), daemon.metrics()
        stop_seconds = daemon.stop()

    assert grades == dict.fromkeys(FLAGS, "measured")
    for name in ("recommended_max_model_len_tokens", "recommended_max_num_seqs"):
        assert [sample.value > 0 for sample in metrics[name].samples] == [True]
    assert {sample.labels["ceiling"] for sample in metrics["ceiling_sequences"].samples} == {
        "memory",
        "latency",
    }
    assert sum(sample.value for sample in metrics["binding_ceiling"].samples) == 1
    check = subprocess.run(
        ["promtool", "check", "metrics"], input=page, text=True, capture_output=True, check=False
    )
    assert (check.returncode, check.stderr) == (0, "")
    assert daemon.url in (tmp_path / "daemon.out").read_text(encoding="utf-8")
    assert stop_seconds < 1
    assert daemon.process.returncode == 0
