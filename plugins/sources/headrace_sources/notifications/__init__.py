"""New objects from S3 event notifications, for the source ``files``."""
