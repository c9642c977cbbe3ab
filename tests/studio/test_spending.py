"""A release is paid for once, whatever is clicked, reloaded or killed; and it is the one that the command makes."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
from studio_client import Client, confirmed, prepared

from dpeigen import Ledger, load_release
from dpeigen.studio.jobs import Job
from dpeigen.studio.project import Project

for package in ("starlette", "jinja2"):
    pytest.importorskip(package, reason="the studio needs it")

BASE = "/p/small-study"


def small(folder, rows=4000, name="small.csv"):
    """A table of four columns, whose release takes a few seconds."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(rows, 4)) * [3, 2, 1, 1] + 50
    text = "a,b,c,d\n" + "\n".join(",".join(f"{v:.3f}" for v in row) for row in table) + "\n"
    (folder / name).write_text(text)
    return Client(folder)


def ready(client, question="pca", **more):
    if not (client.folder / "small-study").exists():
        client.post("/open", {"table": "small.csv"})
        page = client.get(f"{BASE}/columns")
        used = {f"use_{at}": "yes" for at in range(4)}
        assert client.post(f"{BASE}/columns", {"names": page.field("names"), "missing": "refuse", **used}).status == 303
        client.post(f"{BASE}/ledger", {"total_epsilon": "10", "total_delta": "1e-4"})
    form = {"question": question, "components": "2", "scale": "private", "robust": "no", **more}
    assert client.post(f"{BASE}/question", form).status == 303
    answer = client.post(f"{BASE}/privacy", {"epsilon": "1", "delta": "1e-6", "people": "4000"})
    assert answer.status == 303
    page = client.get(f"{BASE}/check")
    assert page.status == 200, page.words
    return confirmed(page)


def entries(client):
    return Ledger(client.folder / "small-study" / "study.ledger").history()


def test_double_clicks_tabs_reloads_and_the_back_button_spend_once(tmp_path):
    client = small(tmp_path)
    form = ready(client)
    second_tab = confirmed(client.get(f"{BASE}/check"))
    assert second_tab == form
    clicks = [threading.Thread(target=client.post, args=(f"{BASE}/spend", form)) for _ in range(6)]
    others = [threading.Thread(target=Client(tmp_path).post, args=(f"{BASE}/spend", second_tab)) for _ in range(3)]
    for click in clicks + others:  # another server over the same folder, too
        click.start()
    for click in clicks + others:
        click.join()
    page = client.wait(f"{BASE}/releases/001")
    assert "made and paid for" in page.words
    again = client.post(f"{BASE}/spend", form)  # reload, or back and once more
    assert again.status == 303
    assert again.headers["location"].endswith("/releases/001")
    assert [entry["state"] for entry in entries(client)] == ["committed"]
    assert os.listdir(tmp_path / "small-study" / "releases") == ["001"]
    assert not list(tmp_path.rglob("progress.jsonl"))  # it shows how fast rows were read
    assert "costs again" in client.get(f"{BASE}/check").words
    # What is kept is a release, and every file of it can be had.
    release = load_release(tmp_path / "small-study" / "releases" / "001" / "release")
    assert release.guarantee.epsilon == 1.0
    card = client.get(f"{BASE}/releases/001/file/card.html")
    assert card.headers["content-type"].startswith("text/html")
    assert "sandbox" in card.headers["content-security-policy"]
    assert (
        client.get(f"{BASE}/releases/001/file/release.json").body
        == (tmp_path / "small-study" / "releases" / "001" / "release" / "release.json").read_bytes()
    )
    assert client.get(f"{BASE}/releases/001/zip").body[:2] == b"PK"
    with zipfile.ZipFile(io.BytesIO(client.get(f"{BASE}/export/project.zip").body)) as packed:
        names = packed.namelist()
        assert "small-study/releases/001/release/card.html" in names
        assert not [name for name in names if name.endswith((".ledger", ".csv", ".jsonl", ".lock"))]
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}  # no time tells of the fit
    history = client.get(f"{BASE}/history").words
    assert "committed" in history
    assert "card of 001" in history
    # A page of the first dry run that was left open pays for nothing else.
    assert client.post(f"{BASE}/privacy", {"epsilon": "2", "people": "4000"}).status == 303
    assert client.post(f"{BASE}/spend", form).headers["location"].endswith("/releases/001")
    assert client.post(f"{BASE}/spend", {**form, "number": "002"}).status == 409
    assert len(entries(client)) == 1


@pytest.mark.slow
def test_the_planted_fault_is_seen(tmp_path):
    """Two claims of two numbers are two releases: the count above would see them."""
    client = small(tmp_path, rows=3000)
    form = ready(client)
    client.post(f"{BASE}/spend", form)
    client.wait(f"{BASE}/releases/001")
    client.post(f"{BASE}/spend", confirmed(client.get(f"{BASE}/check")))
    client.wait(f"{BASE}/releases/002")
    assert len(entries(client)) == 2


def test_a_table_that_cannot_be_read_costs_nothing_and_says_why(tmp_path):
    client = small(tmp_path)
    text = (tmp_path / "small.csv").read_text()
    (tmp_path / "small.csv").write_text(text + "1,2,3\nno,number,at,all\n")
    form = ready(client)
    client.post(f"{BASE}/spend", form)
    page = client.wait(f"{BASE}/releases/001")
    assert "No release was made" in page.words
    assert "missing" in page.words
    assert "no,number" not in page.words
    assert [entry["state"] for entry in entries(client)] in ([], ["cancelled"], ["refused"])
    assert "ε = 10 of 10" in page.words


def job_of(client):
    return Job(Project(client.folder, "small-study"), "001")


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_the_server_may_die_and_the_release_is_kept(tmp_path):
    """The server is a process of its own here, and is killed while the release is made."""
    client = small(tmp_path, rows=30_000)
    form = ready(client)
    code = (
        "import sys; from pathlib import Path; from dpeigen.studio.jobs import begin; "
        "from dpeigen.studio.project import Project; import os, signal; "
        "begin(Project(Path(sys.argv[1]), 'small-study'), sys.argv[2], sys.argv[3]); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), form["number"], form["digest"]], check=False)
    assert done.returncode == -signal.SIGKILL
    assert job_of(client).state == "running"
    page = client.wait(f"{BASE}/releases/001")
    assert "made and paid for" in page.words
    assert [entry["state"] for entry in entries(client)] == ["committed"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["at once", "reserved", "saved"])
def test_kill_minus_nine_loses_nothing_that_was_paid_for(tmp_path, moment):
    client = small(tmp_path, rows=60_000)
    form = ready(client)
    client.post(f"{BASE}/spend", form)
    job = job_of(client)
    if moment == "reserved":
        until(lambda: any(entry["started"] for entry in entries(client)))
    elif moment == "saved":
        until(lambda: job.made)
    os.kill(json.loads((job.folder / "process.json").read_text())["pid"], signal.SIGKILL)
    page = client.wait(f"{BASE}/releases/001")
    found = [(entry["state"], entry["started"]) for entry in entries(client)]
    if job.made:
        assert "made and paid for" in page.words
        assert load_release(job.out).guarantee.epsilon == 1.0
        assert found in ([("committed", True)], [("reserved", True)])
        if "card.html" not in job.files():
            assert client.post(f"{BASE}/releases/001/card").status == 303
            assert "card.html" in job.files()
    elif found:
        assert found == [("reserved", True)]
        assert "counts as spent" in page.words
        assert "ε = 9" in page.words
    else:
        assert "nothing was spent" in page.words
        assert "ε = 10 of 10" in page.words
    assert client.get(f"{BASE}/check").status == 200  # the project goes on, with the next number
    assert client.get(f"{BASE}/check").field("number") == "002"
    assert client.get(f"{BASE}/history").status == 200


@pytest.mark.slow
def test_stopping_gives_back_what_was_not_drawn_and_keeps_what_was(tmp_path):
    client = small(tmp_path, rows=60_000)
    client.post(f"{BASE}/spend", ready(client))
    assert "What stopping costs" in client.get(f"{BASE}/releases/001").words
    assert client.post(f"{BASE}/releases/001/stop").status == 303
    page = client.wait(f"{BASE}/releases/001")
    made = job_of(client).made
    states = [entry["state"] for entry in entries(client)]
    assert states == ["committed"] if made else states in ([], ["cancelled"])
    assert ("made and paid for" in page.words) == made
    assert ("ε = 10 of 10" in page.words) == (not made)


SEEDED = """
import dpeigen.curator.curator as c, dpeigen.estimators.base as b, dpeigen.estimators.score_map as s
from dpeigen.privacy.randomness import SeededRandomness, made_up_generator

class Fixed(SeededRandomness):
    seeded = False  # for this comparison alone

def fixed(state):
    return Fixed(made_up_generator(7))

def at_once(draw, rng):
    value = draw()
    return lambda: value

b.randomness = s.randomness = fixed
c.draw_ahead = at_once  # a thread that draws ahead would draw beside the one that pairs the rows
"""


def fixed_noise(tmp_path, monkeypatch):
    """All processes from now on draw the same made-up noise."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SEEDED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def same_release(client, base, number):
    """Make the release by the exported command, settings and script: all files are the same, but for dates."""
    words = shlex.split(client.get(f"{base}/export/command.txt").text)
    script = client.get(f"{base}/export/release.py").text
    study = client.folder / words[words.index("--config") + 1]
    assert client.get(f"{base}/export/study.toml").body == study.read_bytes()
    assert words[0] == "dpeigen"
    run = {"cwd": client.folder, "check": True, "capture_output": True}
    subprocess.run([sys.executable, "-m", *words], **run)
    by_command = client.folder / words[words.index("--out") + 1]
    made = {"page": client.folder / base.removeprefix("/p/") / f"releases/{number}/release"}
    made["command"] = by_command.rename(by_command.with_name("moved"))
    subprocess.run([sys.executable, "-c", script], **run)
    made["script"] = by_command
    known = {name: json.loads((folder / "release.json").read_text()) for name, folder in made.items()}
    for name, content in known.items():
        content["release"]["facts"].pop("date", None)
        content["release"]["facts"].pop("release_id", None)
        content.pop("sha256")
        assert content == known["page"], name
        arrays = (made[name] / "release.safetensors").read_bytes()
        assert arrays == (made["page"] / "release.safetensors").read_bytes()
    return known["page"]


@pytest.mark.mostly_slow(fast=0, slow=2)
@pytest.mark.parametrize(
    ("question", "more"),
    [
        ("pca", {}),
        ("pca", {"robust": "yes", "scale": "none", "components": "private"}),
        ("covariance", {"scale": "none"}),
        ("ridge", {}),
        ("scoremap", {}),
    ],
)
def test_the_release_is_the_one_that_the_exported_command_and_script_make(tmp_path, monkeypatch, question, more):
    """With the same made-up noise in all three processes all files are the same, but for dates."""
    client = small(fixed_noise(tmp_path, monkeypatch))
    about = {"title": "A <b>title</b>", "author": "A; B"}
    number = "001"
    if question == "scoremap":
        client.post(f"{BASE}/spend", ready(client, **about))
        client.wait(f"{BASE}/releases/001")
        number = "002"
    form = ready(client, question, target="a", map_release="001", **about, **more)
    client.post(f"{BASE}/spend", form)
    assert "made and paid for" in client.wait(f"{BASE}/releases/{number}").words
    found = same_release(client, BASE, number)
    if question != "scoremap":
        assert found["release"]["facts"]["about"]["title"] == "A <b>title</b>"


@pytest.mark.mostly_slow(fast=0, slow=1)
@pytest.mark.parametrize("question", ["pca", "covariance", "ridge", "scoremap"])
def test_so_is_that_of_a_messy_table_with_people_holes_categories_and_transforms(
    tmp_path, monkeypatch, messy, question
):
    folder = fixed_noise(tmp_path, monkeypatch)
    (folder / "visits.csv").write_bytes(messy)
    client, base, number = Client(folder), "/p/visits-study", "001"
    if question == "scoremap":
        prepared(client)
        client.post(f"{base}/spend", confirmed(client.get(f"{base}/check")))
        client.wait(f"{base}/releases/001")
        number = "002"
    classes = {"map_release": "001", "map_label": "geschlecht", "map_labels": "weiblich\nmännlich"}
    prepared(client, question, target="systole", **classes)
    client.post(f"{base}/spend", confirmed(client.get(f"{base}/check")))
    assert "made and paid for" in client.wait(f"{base}/releases/{number}").words
    same_release(client, base, number)


def test_everything_of_the_messy_table_is_prepared(client):
    """The table with visits, holes and an office's form has a dry run that names its columns."""
    prepared(client)
    page = client.get("/p/visits-study/check")
    assert "region=Übersee" in page.words
    assert "missing" in page.words


def test_ordinary_and_robust_questions_have_a_dry_run(tmp_path):
    client = small(tmp_path)
    methods = set()
    for question in ("pca", "covariance"):
        for robust in ("yes", "no"):
            for scale in ("private", "none"):
                ready(client, question, robust=robust, scale=scale)
                methods.add((robust, client.get(f"{BASE}/check").words.partition("Method: ")[2].split(".")[0]))
    assert not {name for robust, name in methods if robust == "yes"} & {n for robust, n in methods if robust == "no"}
