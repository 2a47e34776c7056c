"""Certificates that this machine trusts, for downloads and for a Java that has its own certificates only."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headrace.errors import ConfigError

#: Certificate files of operating systems, for a Python that was built with other paths.
_SYSTEM_FILES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
)
_OPENSSL = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: Variables of other programs for more certificate files (Python's `requests`, curl).
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
#: Default password of Java's keytool. The content is public.
_PASSWORD = "changeit"  # noqa: S105


def build_tls_context() -> ssl.SSLContext:
    """Return a context that trusts SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE, or the system's certificates."""
    context = ssl.create_default_context()
    for file in _list_files():
        with suppress(OSError, ssl.SSLError):
            context.load_verify_locations(file)
    return context


def write_trust_store(file: Path) -> Path:
    """Write the certificates of ``build_tls_context`` as a Java key store (JKS) and return its path, which has their digest.

    An existing file is replaced unless it has exactly these certificates. ConfigError if the folder is not writable.
    """
    certificates = sorted({certificate for path in _list_files() for certificate in _read_certificates(path)})
    digest = hashlib.sha256(b"".join(certificates)).hexdigest()[:16]
    file = file.with_name(f"{file.stem}-{digest}{file.suffix}")
    store = _to_key_store(certificates)
    try:
        if not file.is_file() or file.read_bytes() != store:
            _replace(file, store)
    except OSError as error:
        raise ConfigError(
            f"cannot write the trust store: {error.strerror or error}",
            where=str(file),
            fix="set HEADRACE_CACHE to a folder of this user on a disk with free space",
        ) from error
    return file


def trust_options(file: Path) -> str:
    """Return the Java options for a key store from ``write_trust_store``."""
    return f'"-Djavax.net.ssl.trustStore={file}" -Djavax.net.ssl.trustStoreType=JKS'


def _replace(file: Path, content: bytes) -> None:
    """Replace a file. The temporary file has a random name, under which no other user can have placed a link."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(".half", f"{file.name}.", file.parent)
    half = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        half.chmod(0o644)
        half.replace(file)
    finally:
        half.unlink(missing_ok=True)


def _list_files() -> list[Path]:
    """Return the configured certificate files, and the system's file if OpenSSL's variables are not set."""
    configured = [Path(path) for name in (*_OPENSSL, *_BUNDLES) if (path := os.environ.get(name))]
    if not any(os.environ.get(name) for name in _OPENSSL):
        default = ssl.get_default_verify_paths()
        system = [Path(default.cafile or ""), *_SYSTEM_FILES]
        configured += [file for file in system if file.is_file()][:1]
    return [file for path in configured for file in _files_in(path)]


def _files_in(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]


def _read_certificates(file: Path) -> list[bytes]:
    """Return the certificates of a PEM file as DER; an empty list for any other file."""
    try:
        text = file.read_text(encoding="ascii", errors="replace")
        return [ssl.PEM_cert_to_DER_cert(block) for block in _PEM.findall(text)]
    except (OSError, ValueError):
        return []


def _to_key_store(certificates: Iterable[bytes]) -> bytes:
    """Return a JKS file: header, one entry per certificate, digest of both, as in sun.security.provider.JavaKeyStore."""
    entries = list(certificates)
    # A constant time, so that equal certificates have equal files.
    parts = [struct.pack(">III", 0xFEEDFEED, 2, len(entries))]
    for number, certificate in enumerate(entries):
        parts += [struct.pack(">I", 2), _encode(f"ca{number}"), struct.pack(">Q", 0), _encode("X.509")]
        parts += [struct.pack(">I", len(certificate)), certificate]
    body = b"".join(parts)
    digested = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(digested).digest()  # noqa: S324 - required by the format


def _encode(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
