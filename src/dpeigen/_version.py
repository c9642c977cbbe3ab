"""The version, where every layer may read it."""

__all__: list[str] = []

__version__ = "0.2.0"
