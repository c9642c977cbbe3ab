"""A table as offices write them, with a truth: visits of 8,000 patients, holes, categories, dates, skewed amounts.

Two latent factors stand behind all columns. The truth is factor analysis of mixed data of the complete table, every
patient counting one, computed here by itself.
"""

import datetime

import numpy as np

PEOPLE = 8_000
PAIN = ["keine", "leicht", "mäßig", "stark"]
REGIONS = ["Nord", "Süd", "Ost", "West", "Übersee"]
NAMES = ["geboren", "größe", "gewicht", "systole", "crp", "einkommen", "besuche", "raucht", "geschlecht", "region",
         "schmerz"]  # fmt: skip
EPOCH = datetime.date(1970, 1, 1).toordinal()
SETTINGS = {
    "geboren": 'type = "date"\nlower = 1900-01-01\nupper = 2020-12-31\noutside = "missing"',
    "größe": 'lower = 100\nupper = 230\noutside = "missing"\nunit_of_measure = "cm"',
    "gewicht": 'unit_of_measure = "kg"',
    "systole": 'unit_of_measure = "mmHg"',
    "crp": 'transform = "log"\nunit_of_measure = "mg/l"',
    "einkommen": 'transform = "asinh"\nunit_of_measure = "EUR"',
    "besuche": 'transform = "log1p"',
    "raucht": 'type = "bool"',
    "geschlecht": 'categories = ["weiblich", "männlich"]',
    "region": f"categories = {REGIONS}",
    "schmerz": f"levels = {PAIN}",
    "patient": "use = false",
    "notiz": "use = false",
}


def drawn(seed=0, people=PEOPLE):
    """Ids, one for each visit, and the complete columns."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(people), rng.integers(1, 6, people))
    ids = ids[rng.permutation(len(ids))]
    n = len(ids)
    health, wealth = rng.normal(size=(2, people))[:, ids]

    def noise(size):
        return size * (0.8 * rng.normal(size=people)[ids] + 0.6 * rng.normal(size=n))

    columns = {
        "geboren": np.round(-3_000 - 5_500 * health + noise(3_000)),
        "größe": 171 + 7 * wealth + noise(6),
        "gewicht": 78 + 11 * health + noise(8),
        "systole": 131 + 16 * health + noise(11),
        "crp": np.exp(0.8 + 0.9 * health + noise(0.6)),
        "einkommen": np.exp(10.1 + 0.55 * wealth + noise(0.35)) * (rng.random(n) > 0.01),
        "besuche": rng.poisson(np.exp(0.9 + 0.6 * health)).astype(float),
        "raucht": (wealth + noise(1.2) < -0.7).astype(float),
        "geschlecht": np.where(wealth + noise(1.5) > 0, "männlich", "weiblich"),
        "region": np.array(REGIONS)[np.digitize(wealth + noise(0.7), [-1.1, -0.2, 0.6, 1.9])],
        "schmerz": np.array(PAIN)[np.digitize(health + noise(0.8), [-0.4, 0.7, 1.6])],
    }
    return ids, columns


def truth(ids, columns):
    """Standardised columns of numbers, and the components of factor analysis of mixed data: a random visit of each."""
    weights = 1 / np.bincount(ids)[ids]
    weights = weights / weights.sum()
    found = {}
    for name in NAMES:
        values = columns[name]
        if name in ("geschlecht", "region"):
            levels = ["weiblich", "männlich"] if name == "geschlecht" else REGIONS
            for level in levels:
                flag = (values == level).astype(float)
                found[f"{name}={level}"] = (flag - weights @ flag) / np.sqrt(weights @ flag)
            continue
        if name == "schmerz":
            values = np.array([PAIN.index(value) for value in values], dtype=float)
        values = {"crp": np.log, "einkommen": np.arcsinh, "besuche": np.log1p}.get(name, lambda x: x)(values)
        values = values - weights @ values
        found[name] = values / np.sqrt(weights @ values**2)
    rows = np.column_stack(list(found.values()))
    values, vectors = np.linalg.eigh((rows * weights[:, None]).T @ rows)
    return list(found), values[::-1], vectors[:, ::-1].T


def written(path, ids, columns, *, office, seed=1):
    """The table with 3 to 8% of the cells missing, in an office's form or in a plain one."""
    rng = np.random.default_rng(seed)
    mark, decimal, encoding = (";", ",", "latin-1") if office else (",", ".", "utf-8")

    def number(digits):
        return lambda value: f"{value:.{digits}f}".replace(".", decimal)

    def day(value):
        date = datetime.date.fromordinal(EPOCH + int(value))
        return f"{date:%d.%m.%Y}" if office else f"{date:%Y-%m-%d}"

    forms = {"geboren": day, "größe": number(1), "gewicht": number(1), "systole": number(0), "crp": number(3),
             "einkommen": number(2), "besuche": number(0), "raucht": lambda value: str(int(value))}  # fmt: skip
    gone = {"größe": ["999" + decimal + "0", "", "k.A."], "geboren": ["", "31.02.1960" if office else "1960-02-31"],
            "region": ["unbekannt", ""], "raucht": ["2", ""], "schmerz": ["", "?"]}  # fmt: skip
    texts = {"patient": [f"P{1000 + at}" for at in ids]}
    for name, share in zip(NAMES, np.linspace(0.03, 0.08, len(NAMES)), strict=True):
        cells = list(map(forms.get(name, str), columns[name]))
        for at in np.flatnonzero(rng.random(len(cells)) < share):
            cells[at] = gone.get(name, ["", "NA"])[at % len(gone.get(name, ["", "NA"]))]
        texts[name] = cells
    texts["notiz"] = [f'"siehe Akte{mark} Blatt {at % 7}"' for at in range(len(ids))]
    lines = [mark.join(texts), *(mark.join(cells) for cells in zip(*texts.values(), strict=True))]
    path.write_bytes(("\r\n" if office else "\n").join([*lines, ""]).encode(encoding))
    return path


def filled_in(text, *, office):
    """The file that `init` wrote, as a person fills it in."""
    head, *tables = text.split("\n[columns.")
    head = head.replace("# epsilon = 1.0 ", "epsilon = 2.0 ")
    head = head.replace('# unit = "patient_id"', 'unit = "patient"').replace(
        'missing = "refuse"', 'missing = "correct"'
    )
    if office:
        head = head.replace('# decimal = ","', 'decimal = ","').replace("# date_format", "date_format")
    said = [f"[columns.{name}\n{SETTINGS[name.strip(chr(34) + ']')]}" for name in (t.split("\n", 1)[0] for t in tables)]
    return "\n\n".join([head, *said]) + "\n"
