"""What batches did: counted on the way, kept beside the checkpoint, and how fast changes flow."""
