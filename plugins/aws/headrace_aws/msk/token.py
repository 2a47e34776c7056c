"""OAUTHBEARER tokens of MSK for clients outside the JVM: a Base64-encoded presigned URL."""

from __future__ import annotations

import base64
import time
from typing import Any

from headrace_aws.clients import explain_error
from headrace_aws.identity import Identity

#: Validity of a token in seconds: the longest that a broker accepts.
LIFETIME = 900


def sign_token(identity: Identity) -> tuple[str, float]:
    """Return a token and its expiry in seconds since the epoch. ConfigError without credentials."""
    session = identity.open_session("msk-iam")
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError, NoCredentialsError

    where = f"auth msk-iam, {identity.region}"
    try:
        credentials: Any = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        url = f"https://kafka.{identity.region}.amazonaws.com/?Action=kafka-cluster%3AConnect"
        request = AWSRequest("GET", url)
        begin = time.time()
        signer = SigV4QueryAuth(credentials.get_frozen_credentials(), "kafka-cluster", identity.region, LIFETIME)
        signer.add_auth(request)
    except BotoCoreError as error:
        raise explain_error(error, "kafka-cluster:Connect", where=where) from error
    # All clients add it, and the signature does not cover it.
    text = f"{request.url}&User-Agent=headrace"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("="), begin + LIFETIME
