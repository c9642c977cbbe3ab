"""Methods that read every row once, batch by batch."""

__all__: list[str] = []
