"""Objects of records, cut and named as Confluent's S3 sink connector cuts and names them."""
