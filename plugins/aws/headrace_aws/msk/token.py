"""OAUTHBEARER tokens of MSK for clients outside the JVM: a Base64-encoded presigned URL."""

from __future__ import annotations

import base64
import time
from datetime import datetime
from typing import Any

from headrace_aws.clients import explain_error
from headrace_aws.identity import Identity

#: Validity of a token in seconds: the longest that a broker accepts.
LIFETIME = 900


def sign_token(identity: Identity) -> tuple[str, float]:
    """Return a token and its expiry in seconds since the epoch. ConfigError without credentials.

    The token expires with the credentials that sign it: a broker rejects a signature of expired credentials.
    """
    session = identity.open_session("msk-iam")
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    where = f"auth msk-iam, {identity.region}"
    try:
        credentials = _find_credentials(session)
        url = f"https://kafka.{identity.region}.amazonaws.com/?Action=kafka-cluster%3AConnect"
        request = AWSRequest("GET", url)
        keys = credentials.get_frozen_credentials()
        begin = time.time()
        lifetime = _find_lifetime(credentials, begin)
        SigV4QueryAuth(keys, "kafka-cluster", identity.region, lifetime).add_auth(request)
    except Exception as error:
        raise explain_error(error, "kafka-cluster:Connect", where=where) from error
    # All clients add it, and the signature does not cover it.
    text = f"{request.url}&User-Agent=headrace"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("="), begin + lifetime


def _find_credentials(session: Any) -> Any:
    """Return the credentials of a session. NoCredentialsError without any."""
    from botocore.exceptions import NoCredentialsError

    if (credentials := session.get_credentials()) is None:
        raise NoCredentialsError
    return credentials


def _find_lifetime(credentials: Any, now: float) -> int:
    """Return the validity of a token in seconds. Keys without an end, such as those of the environment, have no limit."""
    # boto3 has no public interface for it.
    end: datetime | None = getattr(credentials, "_expiry_time", None)
    return LIFETIME if end is None else max(1, min(LIFETIME, int(end.timestamp() - now)))
