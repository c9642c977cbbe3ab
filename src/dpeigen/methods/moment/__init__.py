"""Methods that release a noisy second moment."""

__all__: list[str] = []
