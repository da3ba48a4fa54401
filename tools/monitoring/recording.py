"""Recording rules: one series a deployment of what the alerts ask, and one an engine of what vLLM exports."""

from __future__ import annotations

from monitoring.promql import last_known, vllm, vllm_rate
from monitoring.rule import Recording

__all__ = ["DEPLOYMENT_RECORDINGS", "ENGINE_RECORDINGS"]

_FLAG_GAP = """\
label_replace(
  {recommended_len} / {configured_len} - 1,
  "flag", "max_model_len", "", ""
)
or
label_replace(
  {recommended_seqs} / {configured_seqs} - 1,
  "flag", "max_num_seqs", "", ""
)""".format(
    recommended_len=last_known("vllm_advisor_recommended_max_model_len_tokens"),
    configured_len=last_known("vllm_advisor_configured_max_model_len_tokens"),
    recommended_seqs=last_known("vllm_advisor_recommended_max_num_seqs"),
    configured_seqs=last_known("vllm_advisor_configured_max_num_seqs"),
)

_BLAME = """\
label_replace(
  {cap} > bool ignoring (ceiling) {ceiling} == 1,
  "flag", "max_num_seqs", "", ""
)
or ignoring (flag)
label_replace(
  max without (code, severity) (deployment:vllm_advisor_advice:last5m{{code="memory_binds"}} == 1),
  "flag", "max_model_len", "", ""
)""".format(
    cap=last_known("vllm_advisor_configured_max_num_seqs"),
    ceiling=last_known('vllm_advisor_ceiling_sequences{ceiling="latency"}'),
)

DEPLOYMENT_RECORDINGS = (
    Recording("deployment:vllm_advisor_advice:last5m", last_known("vllm_advisor_advice")),
    Recording("deployment:vllm_advisor_targets:last5m", last_known("vllm_advisor_targets")),
    Recording("deployment_flag:vllm_advisor_flag_gap:ratio", _FLAG_GAP),
    Recording("deployment_flag:vllm_advisor_tpot_blame:last5m", _BLAME),
    Recording(
        "deployment:vllm_advisor_tpot_over_slo:ratio",
        f"{last_known('vllm_advisor_tpot_observed_seconds')} / {last_known('vllm_advisor_tpot_slo_seconds')}",
    ),
    Recording(
        "deployment:vllm_advisor_evidence_age_seconds:last5m",
        f"time() - {last_known('vllm_advisor_last_observation_timestamp_seconds')}",
    ),
)

_TPOT = f"""\
({vllm_rate("itl", "5m", suffix="_sum")})
/
(
  ({vllm_rate("generation_tokens", "5m")})
  -
  ({vllm_rate("ttft", "5m", suffix="_count")})
  > 0
)"""

ENGINE_RECORDINGS = (
    Recording("engine:vllm_num_requests_running:max", f"max without (pid) ({vllm('running')})"),
    Recording("engine:vllm_num_requests_waiting:max", f"max without (pid) ({vllm('waiting')})"),
    Recording("engine:vllm_kv_cache_usage_ratio:max", f"max without (pid) ({vllm('kv_used_ratio')})"),
    Recording("engine:vllm_num_preemptions:rate5m", vllm_rate("preemptions", "5m")),
    Recording(
        "engine:vllm_request_success:rate5m",
        f"sum without (finished_reason) ({vllm_rate('finished', '5m')})",
    ),
    Recording("engine:vllm_decoding_requests:mean5m", vllm_rate("itl", "5m", suffix="_sum")),
    Recording("engine:vllm_tpot_seconds:mean5m", _TPOT),
)
