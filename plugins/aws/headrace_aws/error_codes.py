"""Classes of AWS error codes and of botocore's exceptions: temporary errors, rejected credentials, missing permissions.

Services spell a code with and without ``Exception`` or ``Error``, so all entries are prefixes.
"""

from __future__ import annotations

from typing import Any

EXPIRED = ("ExpiredToken", "RequestExpired", "TokenRefreshRequired")
UNKNOWN_CREDENTIALS = (
    "UnrecognizedClient",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignature",
    "InvalidToken",
    "IncompleteSignature",
    "MissingAuthenticationToken",
    "SignatureDoesNotMatch",
)
#: KMS refuses the key of an encrypted stream, secret, parameter, catalog or queue. SQS has two spellings of its own.
KMS_REFUSED = (
    "KMS.",
    "Kms",
    "KMSAccessDenied",
    "KMSDisabled",
    "KMSInvalidState",
    "KMSNotFound",
    "KMSOptInRequired",
    "DecryptionFailure",
    "GlueEncryption",
    "InvalidKeyId",
)
DENIED = (
    "AccessDenied",
    "Unauthorized",
    "NotAuthorized",
    "Forbidden",
    "KMSAccessDenied",
    "KMS.AccessDenied",
    "KmsAccessDenied",
    "403",
)
#: Rates and quotas. The first lines are the codes that botocore retries.
_THROTTLED = (
    *(
        "Throttling",
        "Throttled",
        "RequestThrottled",
        "EC2Throttled",
        "KMSThrottling",
        "KMS.Throttling",
        "KmsThrottled",
        "SlowDown",
        "PriorRequestNotComplete",
    ),
    *("TooManyRequests", "RequestLimitExceeded", "BandwidthLimitExceeded", "LimitExceeded", "TransactionInProgress"),
    *("ProvisionedThroughputExceeded", "ResourceNumberLimitExceeded", "LimitsExceeded", "QuotaExceeded", "OverLimit"),
)
#: Errors inside a service, time-outs, and states that end without an action of the caller.
_UNAVAILABLE = (
    *("Internal", "KMSInternal", "ServiceUnavailable", "ServiceFailure", "Unavailable", "DependencyFailure"),
    *("RequestTimeout", "OperationTimeout", "DependencyTimeout", "IDPCommunicationError", "FederationSourceRetryable"),
    *(
        "ConcurrentModification",
        "OperationAborted",
        "ResourceInUse",
        "ResourceNotReady",
        "ExpiredIterator",
        "ExpiredNextToken",
    ),
)
#: A response of a proxy or a load balancer has no code.
_BUSY_STATUS = (408, 429)


def is_temporary(code: str, status: int = 0) -> bool:
    """Return whether AWS accepts the same request later: throttling, limits, internal errors and time-outs."""
    if code.startswith((*EXPIRED, *UNKNOWN_CREDENTIALS, *DENIED)):
        return False
    if code.startswith((*_THROTTLED, *_UNAVAILABLE)):
        return True
    status = int(code) if code.isdecimal() else status
    return status >= 500 or status in _BUSY_STATUS


def is_connection_error(error: Exception) -> bool:
    """Return whether a request failed on the network, or the metadata service of a machine or container did not respond."""
    from botocore import exceptions as boto

    if isinstance(error, boto.CredentialRetrievalError):
        return _is_busy_container(error)
    network = (
        boto.ConnectionError,
        boto.HTTPClientError,
        boto.IncompleteReadError,
        boto.ChecksumError,
        boto.MetadataRetrievalError,
    )
    # Errors of urllib3 and of the socket, which boto3 does not translate while it reads a body.
    return isinstance(error, network) or not isinstance(error, boto.BotoCoreError)


def _is_busy_container(error: Any) -> bool:
    """Return whether the credentials endpoint of a container did not respond, or responded with a temporary error."""
    text = str(error.kwargs.get("error_msg", ""))
    if error.kwargs.get("provider") != "container-role":
        return False
    found = text.partition("Received non 200 response ")[2][:3]
    return is_temporary(found) if found else "Received error when" in text
