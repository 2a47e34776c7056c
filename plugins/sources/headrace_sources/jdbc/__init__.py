"""Source ``jdbc``: rows of tables or of a query, read by ranges of a cursor."""
