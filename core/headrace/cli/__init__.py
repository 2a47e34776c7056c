"""The ``headrace`` program. Modules import rich, pydantic and pyspark inside functions, which keeps ``--help`` quick."""
