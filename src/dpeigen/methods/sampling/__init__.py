"""Methods that draw directions at random, with probabilities that the rows decide."""

__all__: list[str] = []
