"""Real servers for tests without containers or root, and stand-ins for SQL Server and Kinesis.

Each server is a class. ``with`` starts it on a free port of 127.0.0.1 and removes its data at the end::

    from headrace_stack import Kafka, Record

    with Kafka() as kafka:
        kafka.produce("artists", Record(b"{}", key=b"1"))

``headrace_stack.fixtures`` has pytest fixtures, and ``python -m headrace_stack up`` starts servers from a shell. Artifacts come
from Maven Central and npm, or are built by Go, once per machine in headrace's cache.
"""

from headrace_stack.iceberg_rest import IcebergRest
from headrace_stack.kinesis import Kinesis
from headrace_stack.msk import Msk
from headrace_stack.s3 import S3
from headrace_stack.servers.apicurio import SchemaRegistry
from headrace_stack.servers.kafka import Kafka, Record, Sasl, Transaction
from headrace_stack.servers.kafka_connect import Connect
from headrace_stack.servers.mariadb import MariaDb
from headrace_stack.servers.metastore import Metastore
from headrace_stack.servers.postgres import Postgres
from headrace_stack.servers.server import Server
from headrace_stack.sqlserver import SqlServer

__all__ = [
    "S3",
    "Connect",
    "IcebergRest",
    "Kafka",
    "Kinesis",
    "MariaDb",
    "Metastore",
    "Msk",
    "Postgres",
    "Record",
    "Sasl",
    "SchemaRegistry",
    "Server",
    "SqlServer",
    "Transaction",
]
