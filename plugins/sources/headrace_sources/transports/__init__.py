"""Where records lie: files and Kafka topics."""
