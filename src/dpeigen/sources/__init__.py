"""Everything rows can come from, as blocks."""

from dpeigen.sources.base import PairedSource, Source, UnreadableRowsError
from dpeigen.sources.memory import ArraySource

__all__ = ["ArraySource", "PairedSource", "Source", "UnreadableRowsError"]
