"""HTTP requests with a deadline, and their logins in texts."""

from __future__ import annotations

from headrace.http_client import RedirectError, Response, ResponseTooLargeError, send
from headrace.secret_values import has_named_secret, hide_credentials

__all__ = ["RedirectError", "Response", "ResponseTooLargeError", "has_named_secret", "hide_credentials", "send"]
