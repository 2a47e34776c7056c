"""Tables of a lake as a source: shared by the sources ``iceberg``, ``hudi`` and ``delta``."""
