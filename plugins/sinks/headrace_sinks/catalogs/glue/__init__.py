"""File tables in the AWS Glue Data Catalog."""
