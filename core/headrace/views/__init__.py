"""Views over a pipeline's tables: which keys a change of a table touches, and the SQL that recomputes them.

The modules import sqlglot, which takes as long as the rest of the program. Import them when a file has views.
"""
