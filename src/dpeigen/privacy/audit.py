"""The former place of `dpeigen.auditing.events`; its names still work here."""

from dpeigen._lazy import lazy

_NAMES = (
    "AuditResult Event audit bingham_circle_log_density exact_epsilon_discrete find_events gaussian_log_density "
    "hockey_stick hockey_stick_density laplace_log_density repeat scores"
)
__getattr__, __dir__ = lazy(__name__, dict.fromkeys(_NAMES.split(), "dpeigen.auditing.events"))
