"""Methods that use rows divided by their length, and differences of rows."""

__all__: list[str] = []
