"""``headrace doctor``: the checks of a pipeline and its machine, their findings, and the archive for a bug report."""
