"""Data of ``headrace demo`` (folder ``museum``) and ``headrace live`` (folder ``pagila``). It has no code."""
