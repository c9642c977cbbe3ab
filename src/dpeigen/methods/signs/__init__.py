"""Methods that use rows divided by their norm, and differences of rows."""

__all__: list[str] = []
