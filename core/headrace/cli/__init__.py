"""The ``headrace`` program. Modules here import rich, pydantic and pyspark where they use them: ``--help`` is quick."""
