"""What a machine needs before Spark starts: a Java, and the plugins' jars."""
