"""Methods that release a noisy second moment."""
