"""Access logs of gateways, proxies and engines: lines in, requests with their token counts out."""

from vllm_advisor.sources.access_logs.files import line_start, read_file, read_part, read_requests
from vllm_advisor.sources.access_logs.reader import FUTURE_SECONDS, LineReader
from vllm_advisor.sources.access_logs.request import REJECTED, Logged, LoggedRequest, Outcome, ServedBlock
from vllm_advisor.sources.access_logs.tail import LogTail

__all__ = [
    "FUTURE_SECONDS",
    "REJECTED",
    "LineReader",
    "LogTail",
    "Logged",
    "LoggedRequest",
    "Outcome",
    "ServedBlock",
    "line_start",
    "read_file",
    "read_part",
    "read_requests",
]
