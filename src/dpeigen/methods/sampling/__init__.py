"""Methods that draw directions by the exponential mechanism."""

__all__: list[str] = []
