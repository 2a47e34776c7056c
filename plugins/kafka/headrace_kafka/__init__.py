"""Shared by the source and the sink ``kafka``: brokers, authentication, options of clients, and errors."""
