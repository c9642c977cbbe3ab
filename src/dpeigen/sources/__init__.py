"""Sources of rows, read block by block."""

from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.memory import ArraySource, BlockSource
from dpeigen.sources.opening import open_source
from dpeigen.sources.progress import show_progress
from dpeigen.sources.shuffled import PairedSource

__all__ = [
    "ArraySource",
    "BlockSource",
    "PairedSource",
    "Source",
    "UnreadableRowsError",
    "open_source",
    "show_progress",
]
