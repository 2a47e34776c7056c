"""The commands of the ``headrace`` program, one module each."""
