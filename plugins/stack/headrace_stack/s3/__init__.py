"""S3 server versitygw, which verifies the signature of each request."""

from headrace_stack.s3.gateway import S3

__all__ = ["S3"]
