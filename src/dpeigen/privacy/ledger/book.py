"""`Ledger`: reserves, starts, commits and refuses releases, and records all of it.

Every change is one transaction of one writer: read the totals, decide, append an event, update the totals and entries.
So checking and granting are one step for all threads, processes and hosts. Nothing is kept in memory. No decision
depends on time: events are ordered by their numbers, and dated by the clock of the host that made them.

`room` decides whether a release fits, and `tickets` whether its id may be reserved, started or cancelled. `reading` has
the methods that only read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpeigen._validate import check_choice
from dpeigen._version import __version__
from dpeigen.privacy.budget import Budget, Relation, Spend
from dpeigen.privacy.ledger import chain, rules
from dpeigen.privacy.ledger.chain import State, neighbours_of
from dpeigen.privacy.ledger.places import store_at
from dpeigen.privacy.ledger.reading import Reading
from dpeigen.privacy.ledger.room import as_asked, check_relation, check_room
from dpeigen.privacy.ledger.store import SqliteStore
from dpeigen.privacy.ledger.texts import checked_reason, checked_text
from dpeigen.privacy.ledger.tickets import is_reserved, may_settle, started_here

__all__ = ["Ledger"]


class Ledger(Reading):
    """One budget for all releases of a data set, in a file or in PostgreSQL. Make it once with `Ledger.create`.

    Parameters
    ----------
    place : path or str
        The file, or a ``postgresql://`` URL.
    by : str, default=None
        Who is recorded with everything done through this object; None: the operating system's user.
    host : str, default=None
        The machine that is recorded; None: the operating system's name.
    """

    def __init__(self, place: str | Path, *, by: str | None = None, host: str | None = None) -> None:
        self._store = store_at(place)
        self._by = None if by is None else checked_text("by", by)
        self._host = None if host is None else checked_text("host", host)
        self._release_id: str | None = None
        self._started: dict[str, tuple[int, int]] = {}
        self._store.check()

    @classmethod
    def create(
        cls, place: str | Path, *, epsilon: float, delta: float = 0.0, accounting: str = "auto", by: str | None = None
    ) -> Ledger:
        """Make a new ledger with a total budget; refuses to overwrite.

        Parameters
        ----------
        place : path or str
            The file, or a ``postgresql://`` URL.
        epsilon : float
            The total ε > 0.
        delta : float, default=0.0
            The total δ in [0, 1).
        accounting : str, default="auto"
            How costs are added: "sum", or a tighter rule for Gaussian noise (`dpeigen.privacy.ledger.rules`). "auto"
            decides by the first release.
        by : str, default=None
            Who makes it; None: the operating system's user.

        Returns
        -------
        Ledger
            The new ledger.
        """
        cap = Budget(epsilon, delta)
        check_choice("accounting", accounting, rules.ACCOUNTINGS, "Ledger")
        if cap.is_pure and accounting == "auto":
            accounting = "sum"
        filters = () if accounting == "auto" else rules.filters_of(accounting, cap)
        body = {
            "ledger": uuid.uuid4().hex,
            "version": chain.VERSION,
            "epsilon": cap.epsilon,
            "delta": cap.delta,
            "accounting": accounting,
            "filters": rules.to_list(filters),
            "dpeigen": __version__,
        }
        ledger = cls.__new__(cls)
        ledger._store, ledger._by = store_at(place), None if by is None else checked_text("by", by)
        ledger._host, ledger._release_id, ledger._started = None, None, {}
        with ledger._store.create() as db:
            empty = (1, chain.VERSION, 0, chain.START, State().to_text())
            db.run(f"INSERT INTO {db.schema}budget VALUES (?, ?, ?, ?, ?)", empty)
            ledger._page(db).add("create", body)
        return ledger

    @classmethod
    def at(cls, ledger: Ledger | str | Path) -> Ledger:
        """Open a ledger, unless it is one already.

        Parameters
        ----------
        ledger : Ledger, path or str
            The ledger itself, its path or its URL.

        Returns
        -------
        Ledger
            The ledger.
        """
        return ledger if isinstance(ledger, Ledger) else cls(ledger)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_started": {}}  # a copy has started nothing

    @property
    def path(self) -> Path:
        """The file of a ledger in a file."""
        if not isinstance(self._store, SqliteStore):
            raise AttributeError("A ledger in PostgreSQL has no path; see `place`.")
        return self._store.path

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        return self._store.place

    def __repr__(self) -> str:
        return f"Ledger({self.place!r})"

    def named(self, release_id: str) -> Ledger:
        """Return this ledger for one release with an id of its own: ``ledger=ledger.named("wave-1")``.

        Parameters
        ----------
        release_id : str
            The id. The same id is never paid for twice and never drawn twice.

        Returns
        -------
        Ledger
            The same ledger, for that release.
        """
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._release_id = checked_text("id", release_id)
        return other

    def reserve(
        self,
        cost: Budget,
        what: str,
        relation: Relation = Relation.REPLACE,
        *,
        id: str | None = None,
        split: Iterable[Spend] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> str:
        """Reserve the cost of a release.

        All releases of a data set must have the same neighbouring relation: costs under different relations cannot be
        added.

        Parameters
        ----------
        cost : Budget
            (ε, δ) of the release.
        what : str
            What is released, in words.
        relation : Relation, default=Relation.REPLACE
            What neighbouring tables are.
        id : str, default=None
            Makes the call repeatable: the same id at the same cost is the same reservation, charged once, until `start`
            or `commit` says that noise may have been drawn. From then on it is refused, because a second draw would be
            a second release. After `cancel` an id is free again. None: a new random id.
        split : list of Spend, default=None
            The shares behind the cost, for accountings that are tighter than sums; None: the cost is a bare (ε, δ).
        about : dict, default=None
            Further public facts for the record.

        Returns
        -------
        str
            The ticket: the id of the release.

        Raises
        ------
        BudgetExceededError
            There is no room for the cost.
        RepeatedReleaseError
            The id was used already.
        """
        spends = None if split is None else tuple(split)
        rules.check_split(cost, spends)
        ticket = id if id is not None else self._release_id
        name = uuid.uuid4().hex if ticket is None else checked_text("id", ticket)
        body = {
            "id": name,
            "what": checked_text("what", what),
            "epsilon": cost.epsilon,
            "delta": cost.delta,
            "relation": Relation.parse(relation, "Ledger").value,
            "split": None if spends is None else [spend.to_dict() for spend in spends],
            "about": dict(about or {}),
        }
        with self._store.write() as db:
            page = self._page(db, lock=True)
            if ticket is not None and is_reserved(page, body, self._store.name):
                return name
            charge = rules.charge_of(cost, spends)
            if page.state.accounting == "auto":
                decided = rules.decide(page.state.cap, spends, charge)
                filters = rules.filters_of(decided, page.state.cap)
                page.add("decide", {"accounting": decided, "filters": rules.to_list(filters)})
            check_room(page.state, cost, charge, self._store.name)
            check_relation(page.state, neighbours_of(body), self._store.name)
            page.add("reserve", body)
        self._store.confirm(page.number, page.head)
        return name

    def require(self, cost: Budget, *, split_unknown: bool = False) -> None:
        """Raise `BudgetExceededError` if there is no room now; reserves nothing.

        Parameters
        ----------
        cost : Budget
            (ε, δ) of a release.
        split_unknown : bool, default=False
            Refuse only a cost that does not fit for any shares.
        """
        state = as_asked(self.state())
        if not (split_unknown and any(f.rho_left(state.total) > 0 for f in state.filters)):
            check_room(state, cost, rules.charge_of(cost, None), self._store.name)

    @property
    def wants_split(self) -> bool:
        """Whether shares may make a release cheaper here than its (ε, δ)."""
        return self.state().accounting != "sum"

    def start(self, ticket: str) -> None:
        """Record that noise is about to be drawn for a reservation; only once.

        Parameters
        ----------
        ticket : str
            What `reserve` returned.
        """
        self._settle(ticket, "start")

    def commit(self, ticket: str) -> None:
        """Record that the release was made.

        Parameters
        ----------
        ticket : str
            What `reserve` returned.
        """
        self._settle(ticket, "commit")

    def cancel(self, ticket: str, reason: str | None = None) -> None:
        """Give a reservation back, because nothing was drawn from the data. The entry stays in the history.

        Parameters
        ----------
        ticket : str
            What `reserve` returned.
        reason : str, default=None
            Needed after `start`, when data may have been read; it is recorded and must hold no value of the data. Only
            the object that started can know that nothing was drawn; everyone else needs `resolve`.
        """
        given = {} if reason is None else {"reason": checked_reason(reason, "Ledger.cancel")}
        self._settle(ticket, "cancel", given)

    def refused(self, what: str, reason: str) -> None:
        """Record that rows were read and then refused before anything could be reserved; it costs nothing.

        A refusal is an answer about the data, so whoever reviews the ledger must see how often there was one.

        Parameters
        ----------
        what : str
            What was to be released.
        reason : str
            The kind of refusal; it must hold no value of the data.
        """
        body = {
            "id": uuid.uuid4().hex,
            "what": checked_text("what", what),
            "reason": checked_reason(reason, "Ledger.refused"),
        }
        with self._store.write() as db:
            self._page(db, lock=True).add("refuse", body)

    def resolve(self, ticket: str, *, spent: bool, reason: str) -> None:
        """Close by hand a reservation that its process left open.

        The entry stays in the history, and `verify` counts it among its cautions.

        Parameters
        ----------
        ticket : str
            What `reserve` returned.
        spent : bool
            True: it counts as spent. False: the cost is given back, which states that nobody has seen anything drawn
            for it.
        reason : str
            Why; it is recorded.
        """
        decision = {"as": "spent" if spent else "cancelled", "reason": checked_reason(reason, "Ledger.resolve")}
        self._settle(ticket, "resolve", decision)

    # --- inside a transaction ---------------------------------------------------------------------------------------

    def _settle(self, ticket: str, kind: str, more: Mapping[str, Any] | None = None) -> None:
        with self._store.write() as db:
            page = self._page(db, lock=True)
            mine, name = self._started.get(ticket), self._store.name
            entry, reserved = may_settle(page, ticket, kind, name, mine=mine, reason_given=bool(more))
            page.add(kind, {"id": ticket, **(more or {})}, reserved)
        if kind == "start":
            self._store.confirm(page.number, page.head)
            self._started[ticket] = started_here(entry)
        elif kind in chain.SETTLING:
            self._started.pop(ticket, None)
