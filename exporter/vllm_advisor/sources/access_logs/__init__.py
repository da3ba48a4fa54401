"""Access logs of gateways, proxies and engines: lines in, requests with their token counts out."""

from vllm_advisor.sources.access_logs.files import read_file, read_requests
from vllm_advisor.sources.access_logs.reader import LineReader
from vllm_advisor.sources.access_logs.request import Logged, LoggedRequest, Outcome, ServedBlock
from vllm_advisor.sources.access_logs.tail import LogTail

__all__ = [
    "LineReader",
    "LogTail",
    "Logged",
    "LoggedRequest",
    "Outcome",
    "ServedBlock",
    "read_file",
    "read_requests",
]
