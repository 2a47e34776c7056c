"""HTTP requests with a deadline, and a time limit for other requests."""

from __future__ import annotations

from headrace.http_client import RedirectError, Response, ResponseTooLargeError, send
from headrace.time_limit import run_within

__all__ = ["RedirectError", "Response", "ResponseTooLargeError", "run_within", "send"]
