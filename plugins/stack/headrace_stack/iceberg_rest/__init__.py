"""Iceberg's own REST catalog as a server."""

from headrace_stack.iceberg_rest.rest_catalog import IcebergRest

__all__ = ["IcebergRest"]
