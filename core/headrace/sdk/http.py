"""HTTP requests with a deadline."""

from __future__ import annotations

from headrace.http_client import RedirectError, Response, ResponseTooLargeError, send

__all__ = ["RedirectError", "Response", "ResponseTooLargeError", "send"]
