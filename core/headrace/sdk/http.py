"""HTTP requests with a deadline."""

from __future__ import annotations

from headrace.http_client import Answer, AnswerTooLargeError, RedirectError, send

__all__ = ["Answer", "AnswerTooLargeError", "RedirectError", "send"]
