"""Orders of the built-in Debezium connectors."""
