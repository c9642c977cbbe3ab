"""The command line, one file per command. Heavy imports happen inside the commands."""

__all__: list[str] = []
