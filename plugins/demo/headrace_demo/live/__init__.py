"""A whole PostgreSQL database, followed by Debezium and Kafka into two lakes."""
