"""The addresses on a card: of the proof, the paper and the software.

Addresses are written here and never come from a release. Opening the page loads none of them.
"""

from __future__ import annotations

from importlib import metadata

from dpeigen._version import __version__
from dpeigen.methods.auto import METHODS
from dpeigen.privacy import Guarantee

__all__ = ["DOIS", "documentation", "papers", "proof_page", "software"]

# Names of authors as `reference` has them, and the DOI of the paper. (Amin et al. 2019 has none.)
DOIS = {
    "Asi, Feldman, Talwar 2022": "10.48550/arXiv.2205.02466",
    "Balle and Wang 2018": "10.48550/arXiv.1805.06530",
    "Bhowmick et al. 2018": "10.48550/arXiv.1812.00984",
    "Biswas, Dong, Kamath and Ullman 2020": "10.48550/arXiv.2006.06618",
    "Cai, Xia and Zha 2024": "10.48550/arXiv.2401.03820",
    "Dong, Liang and Yi 2022": "10.48550/arXiv.2205.14324",
    "Dwork et al. 2006": "10.1007/11681878_14",
    "Dwork et al. 2014": "10.1145/2591796.2591883",
    "Feldman, McMillan, Talwar 2021": "10.1109/FOCS52979.2021.00096",
    "Kapralov and Talwar 2013": "10.1137/1.9781611973105.101",
    "Kim and Jung 2025": "10.48550/arXiv.2507.15232",
    "Liu, Kong, Jain, Oh 2022": "10.48550/arXiv.2205.13709",
    "Maunu et al. 2022": "10.48550/arXiv.2203.09276",
    "Wang and Xu 2019": "10.1016/j.tcs.2019.12.019",
    "d'Orsi and Novikov 2025": "10.48550/arXiv.2510.26717",
}


def papers(g: Guarantee) -> list[tuple[str, str]]:
    """The papers that the mechanism comes from, with their addresses."""
    return [(name, f"https://doi.org/{doi}") for name, doi in DOIS.items() if name in g.reference]


def _page(mechanism: str) -> str:
    for name in sorted(METHODS, key=len, reverse=True):  # names may contain shorter ones
        if name in mechanism:
            return METHODS[name].page or f"mechanisms/{name}"
    return "local" if "privunit" in mechanism or "local" in mechanism else "sensitivity"


def proof_page(g: Guarantee) -> tuple[str, str | None]:
    """The page of the documentation with the proof, and its address if the package declares one."""
    page = _page(g.mechanism)
    return f"Proof: docs/{page}.md of dpeigen {__version__}", documentation(page)


def documentation(page: str) -> str | None:
    """The address of a page, from those that the installed package declares (``Project-URL``).

    The address of the documentation is preferred; otherwise it is the file in the repository at the tag of this
    version. None if the package declares neither: no address is better than one that may belong to somebody else.
    """
    declared = _declared()
    if home := declared.get("documentation"):
        return f"{home.rstrip('/')}/{page}.html"
    home = declared.get("repository") or declared.get("source")
    return f"{home.rstrip('/')}/blob/v{__version__}/docs/{page}.md" if home else None


def software() -> str | None:
    """The address of this version of the software, or of its home page; None if the package declares none."""
    declared = _declared()
    if home := declared.get("repository") or declared.get("source"):
        return f"{home.rstrip('/')}/tree/v{__version__}"
    return declared.get("homepage")


def _declared() -> dict[str, str]:
    """The addresses that the installed package declares, by their names."""
    try:
        lines = metadata.metadata("dpeigen").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return {}
    pairs = [[part.strip() for part in line.partition(",")] for line in lines]
    return {name.lower(): address for name, _, address in pairs if address.startswith("https://")}
