"""Property tests draw the same examples in every run, so that a green run stays green; and they are not timed."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
