"""Clients of AWS's services: with the credentials that boto3 finds, bounded in time, their errors in words."""

from __future__ import annotations

import os
from typing import Any

from headrace.sdk import ConfigError, HeadraceError, LoginError, RetriableError

#: Seconds until a service that does not answer is away, and how often it is asked.
_SILENCE, _ATTEMPTS = 10, 4
#: What boto3 tries, in its order: said when it found nothing.
PLACES = (
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_WEB_IDENTITY_TOKEN_FILE, the profile {profile} of ~/.aws, "
    "the container's role, the instance's role"
)
#: Beginnings of the names that AWS has for its refusals.
_EXPIRED = ("ExpiredToken", "RequestExpired")
_UNKNOWN_LOGIN = ("UnrecognizedClient", "InvalidClientTokenId", "InvalidSignature", "SignatureDoesNotMatch")
_DENIED = ("AccessDenied", "UnauthorizedOperation", "NotAuthorized")
_BUSY = (
    "Throttling",
    "KMSThrottling",
    "TooManyRequests",
    "RequestLimitExceeded",
    "ProvisionedThroughputExceeded",
    "InternalServiceError",
    "InternalServerError",
    "InternalFailure",
    "ConcurrentModification",
    "OperationTimeout",
)


def open_session(service: str, *, profile: str | None = None) -> Any:
    """A session of boto3 of its own, for that of the module keeps the credentials that it found first.

    ConfigError when there is no boto3 or no such profile.
    """
    try:
        import boto3
    except ModuleNotFoundError as error:
        raise ConfigError(f"{service} of AWS needs boto3", fix="pip install 'headrace[aws]'") from error
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.Session(profile_name=profile)
    except BotoCoreError as error:
        raise explain_error(error, service, where=f"AWS {service}") from error


def find_region(profile: str | None = None) -> str | None:
    """The region of the environment, or of the profile where boto3 is installed."""
    if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        return region
    try:
        return open_session("region", profile=profile).region_name  # type: ignore[no-any-return]
    except ConfigError:
        return None


def make_client(
    service: str,
    region: str | None = None,
    session: Any = None,
    *,
    endpoint: str | None = None,
    attempts: int | None = None,
) -> Any:
    """A client of a service: ``secretsmanager``, ``ssm``. Without a region it is the one that the environment or the profile names.

    ``endpoint``: the URL of an emulator or a VPC endpoint; ``attempts``: how often a question is asked. ConfigError when there is no
    boto3, no region, no such profile or no such URL.
    """
    session = session or open_session(service)
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    limits = Config(
        connect_timeout=_SILENCE, read_timeout=_SILENCE, retries={"total_max_attempts": attempts or _ATTEMPTS}
    )
    # Containers of AWS have the first of the two variables, and boto3 knows the second.
    region = region or os.environ.get("AWS_REGION")
    try:
        return session.client(service, region_name=region, endpoint_url=endpoint, config=limits)
    except ValueError as error:
        fix = "write it like https://kinesis.eu-west-1.amazonaws.com"
        raise ConfigError(f"the endpoint is no URL: {endpoint}", where=f"AWS {service}", fix=fix) from error
    except BotoCoreError as error:
        raise explain_error(error, service, where=f"AWS {service}") from error


def explain_error(error: Exception, action: str, *, where: str) -> HeadraceError:
    """What an error of boto3 means. ``action``: what was asked, as policies write it: ``ssm:GetParameter``.

    One in words stays what it is: a role that is assumed on the way could not be.
    """
    from botocore.exceptions import ClientError
    from botocore.parsers import ResponseParserError

    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, ClientError):
        return _explain_refusal(error, action, where)
    # KeyError: a part of the answer is missing. Neither's text is shown, for it may have the answer in it.
    if isinstance(error, ResponseParserError | KeyError):
        fix = "look at the endpoint (AWS_ENDPOINT_URL) and at the proxy: what answers is not AWS"
        return ConfigError("the answer is none of AWS", where=where, fix=fix)
    if what := _describe_missing(error):
        return ConfigError(what[0], where=where, fix=what[1])
    return RetriableError(f"AWS does not answer: {error}", where=where, fix="look at the network; nothing is lost")


def error_code(error: Exception) -> str:
    """AWS's name for a refusal: ``ResourceNotFoundException``; empty when it is none."""
    return str(_answer(error).get("Error", {}).get("Code", ""))


def error_message(error: Exception) -> str:
    """What AWS says of a refusal; empty when it is none."""
    return str(_answer(error).get("Error", {}).get("Message", ""))


def is_denied(error: Exception) -> bool:
    """Whether AWS knows who asks, and does not allow it."""
    return error_code(error).startswith(_DENIED)


def _answer(error: Exception) -> dict[str, Any]:
    """What AWS answered; empty for an error that is no answer of its."""
    return getattr(error, "response", None) or {}


def _describe_missing(error: Exception) -> tuple[str, str] | None:
    """What the environment and the profile do not say, and the fix; None when it is nothing of these."""
    from botocore import exceptions as boto

    profile = getattr(error, "kwargs", {}).get("profile") or os.environ.get("AWS_PROFILE", "default")
    if isinstance(error, boto.NoRegionError):
        return "no region is named", "set AWS_REGION, or `region` in the profile"
    if isinstance(error, boto.ProfileNotFound):
        return (
            f"there is no profile {profile!r}",
            "name a profile of ~/.aws/config: AWS_PROFILE, or `profile` of the block",
        )
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        fix = f"give it a role, a profile or keys; it looked at {PLACES.format(profile=profile)}"
        return f"there are no credentials: {error}", fix
    if isinstance(error, boto.CredentialRetrievalError | boto.TokenRetrievalError | boto.SSOError):
        return f"no credentials come: {error}", "log in again, or look at the role"
    return None


def _explain_refusal(error: Exception, action: str, where: str) -> HeadraceError:
    code = error_code(error)
    if code.startswith(_EXPIRED):
        return LoginError("the session token has expired", where=where, fix="log in again, or give it a role")
    if code.startswith(_UNKNOWN_LOGIN):
        fix = "look at the access key, its secret and its session token: they belong together"
        return LoginError(f"AWS lets nobody in with these credentials: {code}", where=where, fix=fix)
    if is_denied(error):
        fix = f"allow {action} to this role or user"
        if "Lake Formation" in str(error):  # where it watches over a catalog, IAM's permissions do not suffice
            fix = "grant it to this role or user in Lake Formation"
        return ConfigError(f"access denied: {error}", where=where, fix=fix)
    status = _answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code.startswith(_BUSY) or status >= 500:
        return RetriableError(f"AWS is busy: {error}", where=where, fix="try again; nothing is lost")
    return ConfigError(f"AWS refuses: {error}", where=where, fix=f"see what {action} says of {code}")
