"""The curator holds the rows. Methods reach the data only through it."""

from dpeigen.curator.account import Curator
from dpeigen.curator.costs import NotPaidForError
from dpeigen.curator.curator import DataCurator
from dpeigen.curator.feed import Feed
from dpeigen.curator.purposes import Purpose
from dpeigen.curator.rehearsal import Rehearsal

__all__ = ["Curator", "DataCurator", "Feed", "NotPaidForError", "Purpose", "Rehearsal"]
