"""Clients of AWS services, with timeouts and translated errors. boto3 finds the credentials."""

from __future__ import annotations

import os
import re
from typing import Any

from headrace.sdk import ConfigError, HeadraceError, LoginError, RetriableError
from headrace_aws.error_codes import (
    DENIED,
    EXPIRED,
    KMS_REFUSED,
    UNKNOWN_CREDENTIALS,
    is_connection_error,
    is_temporary,
)

#: Seconds until a request times out, and the number of attempts.
_TIMEOUT, _ATTEMPTS = 10, 4
#: Options of boto3 for the service that has an instance's role. By default one busy response counts as an instance without a role.
_METADATA_SERVICE = {"metadata_service_num_attempts": 3, "metadata_service_timeout": 1}
#: Sources of credentials in the order of boto3, for error messages.
CREDENTIAL_SOURCES = (
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_WEB_IDENTITY_TOKEN_FILE, the profile {profile} of ~/.aws, "
    "the container's role, the instance's role"
)
#: Action in AWS's message about a missing permission.
_ACTION = re.compile(r"not authorized to perform: ([\w-]+:\w+)")
#: Message about a key of KMS: "Access to KMS is not allowed", "The ciphertext refers to a customer master key that …".
_KMS = re.compile(r"\bKMS\b|ciphertext refers to|customer master key")
_FIX_KMS = "allow kms:Decrypt on the KMS key to this role or user, in IAM and in the policy of the key, and check that the key is enabled"


def open_session(service: str, *, profile: str | None = None) -> Any:
    """Return a new boto3 session; the default session of the module would keep its first credentials.

    ConfigError without boto3, and for an unknown profile.
    """
    try:
        import boto3
    except ModuleNotFoundError as error:
        raise ConfigError(f"AWS {service} requires boto3", fix="pip install 'headrace[aws]'") from error
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    core = Session()
    for name, value in _METADATA_SERVICE.items():
        if f"AWS_{name.upper()}" not in os.environ:
            core.set_config_variable(name, value)
    try:
        return boto3.Session(botocore_session=core, profile_name=profile)
    except BotoCoreError as error:
        raise explain_error(error, service, where=f"AWS {service}") from error


def find_region(profile: str | None = None) -> str | None:
    """Return the region of the environment, or of the profile if boto3 is installed."""
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
    where: str | None = None,
) -> Any:
    """Return a client of a service, for example ``ssm``. Default region: the region of the environment or the profile.

    ``endpoint`` is the URL of an emulator or a VPC endpoint; ``attempts`` is the number of attempts of a request; ``where``
    appears in errors. ConfigError without boto3, credentials or a region, and for an unknown profile or an invalid URL: a client
    never finds credentials that appear after it was created.
    """
    where = where or f"AWS {service}"
    session = session or open_session(service)
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, NoCredentialsError

    limits = Config(
        connect_timeout=_TIMEOUT,
        read_timeout=_TIMEOUT,
        # The mode "legacy" does not retry all codes of throttling.
        retries={"mode": "standard", "total_max_attempts": attempts or _ATTEMPTS},
    )
    # AWS containers set AWS_REGION; boto3 reads only AWS_DEFAULT_REGION.
    region = region or os.environ.get("AWS_REGION")
    try:
        client = session.client(service, region_name=region, endpoint_url=endpoint, config=limits)
        if session.get_credentials() is None:
            raise NoCredentialsError
    except ValueError as error:
        fix = "write it like https://kinesis.eu-west-1.amazonaws.com"
        raise ConfigError(f"the endpoint is not a URL: {endpoint}", where=where, fix=fix) from error
    except BotoCoreError as error:
        raise explain_error(error, service, where=where) from error
    return client


def explain_error(error: Exception, action: str, *, where: str) -> HeadraceError:
    """Translate an error of boto3. ``action`` is the IAM action, for example ``ssm:GetParameter``.

    A HeadraceError stays as it is: assuming the role of the session failed.
    """
    from botocore.exceptions import ClientError

    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, ClientError):
        return _explain_client_error(error, action, where)
    return _explain_other_error(error, where)


def error_code(error: Exception) -> str:
    """Return the AWS error code, for example ``ResourceNotFoundException``; empty for other errors."""
    return str(_response_of(error).get("Error", {}).get("Code", ""))


def error_message(error: Exception) -> str:
    """Return the message of an AWS error; empty for other errors."""
    return str(_response_of(error).get("Error", {}).get("Message", ""))


def is_denied(error: Exception) -> bool:
    """Return whether AWS accepted the credentials and denied the action."""
    return error_code(error).startswith(DENIED)


def _response_of(error: Exception) -> dict[str, Any]:
    """Return the response in an error; empty if it has none."""
    return getattr(error, "response", None) or {}


def _explain_other_error(error: Exception, where: str) -> HeadraceError:
    """Translate an error that is not the response of a service."""
    from botocore.parsers import ResponseParserError

    # KeyError: a field of the response is missing. The message could contain the response, so it is not shown.
    if isinstance(error, ResponseParserError | KeyError):
        fix = "check the endpoint (AWS_ENDPOINT_URL) and the proxy"
        return ConfigError("the response is not from AWS", where=where, fix=fix)
    if described := _describe_missing(error):
        return ConfigError(described[0], where=where, fix=described[1])
    # botocore raises it after it renewed credentials that have a fixed end.
    if isinstance(error, RuntimeError) and "still expired" in str(error):
        return LoginError("the credentials have expired", where=where, fix="log in again, or use a role")
    if is_connection_error(error):
        return RetriableError(f"AWS does not respond: {error}", where=where, fix="check the network; nothing is lost")
    fix = f"check the region, the endpoint and ~/.aws, and look up {type(error).__name__} in the documentation of boto3"
    return ConfigError(f"the request cannot be sent: {error}", where=where, fix=fix)


def _describe_missing(error: Exception) -> tuple[str, str] | None:
    """Return the message and the fix for missing credentials, profile or region; None for other errors."""
    from botocore import exceptions as boto

    profile = getattr(error, "kwargs", {}).get("profile") or os.environ.get("AWS_PROFILE", "default")
    if isinstance(error, boto.NoRegionError):
        return "no region is set", "set AWS_REGION, or `region` in the profile"
    if isinstance(error, boto.ProfileNotFound):
        return (
            f"unknown profile {profile!r}",
            "set AWS_PROFILE, or `profile` of the block, to a profile in ~/.aws/config",
        )
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        fix = f"set a role, a profile or keys; the sources are {CREDENTIAL_SOURCES.format(profile=profile)}"
        return f"no AWS credentials found: {error}", fix
    retrieval = boto.CredentialRetrievalError | boto.TokenRetrievalError | boto.SSOError
    if isinstance(error, retrieval) and not is_connection_error(error):
        return f"the credentials cannot be retrieved: {error}", "log in again, or check the role"
    return None


def _explain_client_error(error: Exception, action: str, where: str) -> HeadraceError:
    code = error_code(error)
    if code.startswith(EXPIRED):
        return LoginError("the session token has expired", where=where, fix="log in again, or use a role")
    if code.startswith(UNKNOWN_CREDENTIALS):
        fix = "check that the access key, its secret and its session token belong together"
        return LoginError(f"AWS rejected the credentials: {code}", where=where, fix=fix)
    if is_denied(error):
        return ConfigError(f"access denied: {error}", where=where, fix=_find_permission(error, action))
    status = _response_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if is_temporary(code, status):
        return RetriableError(f"AWS is busy: {error}", where=where, fix="retry later; nothing is lost")
    fix = f"look up {code} in the documentation of {action}"
    if code.startswith(KMS_REFUSED):
        fix = _FIX_KMS
    return ConfigError(f"AWS rejected the request: {error}", where=where, fix=fix)


def _find_permission(error: Exception, action: str) -> str:
    """Return the fix for a missing permission, which can belong to another service than the request."""
    message = error_message(error)
    if "Lake Formation" in message:  # its permissions apply in addition to those of IAM
        return "grant this role or user the permission in Lake Formation"
    named = _ACTION.search(message)
    if named and not named[1].startswith("kms:"):
        return f"allow {named[1]} to this role or user"
    if named or error_code(error).startswith(KMS_REFUSED) or _KMS.search(message):
        return _FIX_KMS
    return f"allow {action} to this role or user"
