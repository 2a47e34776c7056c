"""Demo of a live PostgreSQL database, replicated through Debezium and Kafka into two lakes."""
