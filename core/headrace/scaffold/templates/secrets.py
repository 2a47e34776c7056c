"""Secrets in a folder with a file for each, as systemd, Docker and Kubernetes provide them to a process."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.sdk import SecretProvider, hookimpl


def read_secret(name: str) -> str:
    """``${example:password}``: return the content of the file ``password`` in the folder CREDENTIALS_DIRECTORY."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "/run/secrets")
    if "/" in name or name.startswith("."):
        raise LookupError(f"{name!r} is not a valid secret name")
    try:
        return Path(folder, name).read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:  # users see this text: it states where we looked, and never a value
        raise LookupError(f"no secret {name!r} in {folder}: {error.strerror}") from None


@hookimpl
def headrace_secret_providers() -> dict[str, SecretProvider]:
    """Return the secret providers by the name before the colon of a reference."""
    return {"example": read_secret}
