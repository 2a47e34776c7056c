"""What a machine needs before Spark starts, and the start: a Java, the plugins' jars, a session."""
