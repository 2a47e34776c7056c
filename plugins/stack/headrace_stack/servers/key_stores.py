"""Keys with self-signed certificates, created by Java's keytool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from headrace.errors import FatalError
from headrace_stack.servers import jvm_command
from headrace_stack.servers.server import HOST

#: Password of the PKCS12 files: Java's default. The keys exist only during the tests.
PASSWORD = "changeit"  # noqa: S105 - see above


def make(folder: Path, name: str) -> None:
    """Create ``NAME.p12``, a key with its certificate, and ``NAME.pem``, the certificate for clients to trust."""
    store = ("-alias", name, "-keystore", f"{name}.p12", "-storetype", "PKCS12", "-storepass", PASSWORD)
    names = ("-dname", "CN=localhost", "-ext", f"san=ip:{HOST},dns:localhost")
    for command in (
        ("-genkeypair", "-keyalg", "RSA", "-validity", "2", *names, *store),
        ("-exportcert", "-rfc", "-file", f"{name}.pem", *store),
    ):
        done = subprocess.run(
            [jvm_command.java().home / "bin" / "keytool", *command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise FatalError(f"keytool exited with status {done.returncode}: {done.stdout}{done.stderr}", where=name)
