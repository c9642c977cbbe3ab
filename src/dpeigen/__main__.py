"""``python -m dpeigen`` is the ``dpeigen`` command."""

from dpeigen.cli.app import main

if __name__ == "__main__":
    main()
