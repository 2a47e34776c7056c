"""Tables of files in the Data Catalog of AWS Glue."""
