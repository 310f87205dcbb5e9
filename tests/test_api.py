"""The Python API: its page runs as it stands, and it starts without what it may never need."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import nsysroof as nr
from nsysroof import api
from nsysroof.errors import UsageError
from nsysroof.notebook import html_of
from nsysroof.results import Finding, Host
from tests.report import sample
from tests.report.page_of_html import read_page
from tests.report.slices_sample import SLICES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
FIXTURE = ROOT / "fixtures" / "qwen3-30b-a3b-gh200.sqlite"


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 8
    code = "\n".join(blocks).replace('"fixtures/', f'"{ROOT}/fixtures/')
    exec(compile(code, "docs/api.md", "exec"), {})


def test_the_page_names_every_call_with_its_arguments() -> None:
    named = {
        name: re.sub(r"=(\(\)|[^,)]*)", "", arguments)
        for name, arguments in re.findall(r"`(\w+)\(([^`]*)\)`", PAGE)
    }
    for name in nr.__all__:
        value = getattr(nr, name)
        if inspect.isfunction(value):
            assert name in named, name
        if getattr(value, "__module__", "") == api.__name__:
            parameters = [
                {"VAR_KEYWORD": "**", "VAR_POSITIONAL": "*"}.get(one.kind.name, "") + one.name
                for one in inspect.signature(value).parameters.values()
            ]
            told = [word for word in named[name].split(", ") if word != "*"]
            assert told == parameters, name


def test_every_public_name_is_there_and_no_other() -> None:
    assert sorted(nr.__all__) == nr.__all__
    assert set(nr.__all__) <= set(dir(nr))
    with pytest.raises(AttributeError):
        _ = nr.no_such_name


@pytest.mark.parametrize("name", ["polars", "matplotlib", "IPython", "rich", "numpy"])
def test_results_load_nothing_heavy(name: str) -> None:
    code = f"import nsysroof.results, nsysroof, sys; assert {name!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_showing_a_report_does_not_import_ipython() -> None:
    code = (
        "from tests.report import sample; import sys; sample.full()._repr_html_();"
        "assert 'IPython' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_notebook_shows_a_report_as_tables() -> None:
    page = read_page(sample.full()._repr_html_())
    findings, budget, operators = page.all("table")
    assert findings.one("tbody").all("tr")[0].text.startswith("error")
    assert [row.all("td")[1].text for row in budget.one("tbody").all("tr")][-1] == "6,100.000"
    first = [cell.text for cell in operators.one("tbody").all("tr")[0].all("td")]
    assert first == ["attn.core", "32", "41.0", "20.0", "2.05", "memory", "671.0"]
    assert "llama-3.1-8b on h100-sxm: 38 decode steps, 6,100.0 µs in the median" in page.text


def test_a_notebook_shows_nothing_of_what_is_not_there() -> None:
    page = read_page(sample.empty()._repr_html_())
    assert [table.one("caption").text for table in page.all("table")] == ["findings"]


def test_hostile_texts_stay_text_in_a_notebook() -> None:
    bad = Finding(slug="x", severity="note", text="</td><script>alert(1)</script>", hint="")
    report = replace(sample.full(), capture=sample.capture(findings=[bad]))
    page = read_page(report._repr_html_())
    assert page.all("script") == []
    assert "<script>alert(1)" in page.text


def test_a_notebook_shows_an_estimate_and_a_sweep() -> None:
    table = read_page(sample.estimate()._repr_html_()).one("table")
    cells = [cell.text for cell in table.one("tbody").all("tr")[0].all("td")]
    assert cells == ["attn.qkv_proj", "32", "15.1", "482.3", "memory", "50.5 MB"]
    swept = nr.sweep(model="qwen3-8b", gpu="l4", context=1024, over={"batch": [1, 2]})
    rows = read_page(swept._repr_html_()).one("tbody").all("tr")
    assert len(rows) == 2
    with pytest.raises(TypeError):
        html_of(Host(launch_calls=1, launch_ns=1, sync_ns=1))


def test_a_path_does_for_a_trace_and_for_a_report(tmp_path: Path) -> None:
    by_path = nr.analyze(FIXTURE, model="qwen3-30b-a3b", context=4096, batch=1)
    options = nr.Options(model="qwen3-30b-a3b", batch=1, context=(4096,))
    assert by_path == nr.analyze(nr.open_trace(str(FIXTURE)), options)
    saved = nr.save(by_path, tmp_path / "run.json")
    assert nr.diff(saved, by_path).is_empty
    assert nr.whatif(saved).expected_ns == by_path.budget.wall_ns  # type: ignore[union-attr]


def test_keywords_win_over_the_options() -> None:
    options = nr.Options(model="qwen3-8b", gpu="l4", context=(1024,), batch=4)
    assert nr.estimate(options, batch=2).assumptions.batch == 2
    assert nr.estimate(options).assumptions.batch == 4


def test_a_misspelt_option_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        nr.estimate(model="qwen3-8b", contxt=1024)
    assert caught.value.slug == "unknown-option"
    assert "'contxt'" in caught.value.message


def test_saving_never_overwrites_and_takes_what_the_format_takes(tmp_path: Path) -> None:
    report = sample.full()
    nr.save(report, tmp_path / "run.md")
    with pytest.raises(FileExistsError):
        nr.save(report, tmp_path / "run.md")
    nr.save(SLICES, tmp_path / "run.pftrace")
    for result, name in ((report, "b.pftrace"), (SLICES, "b.json"), (SLICES, "b.db")):
        with pytest.raises(UsageError) as caught:
            nr.save(result, tmp_path / name)
        assert caught.value.slug == "wrong-result"
    assert not list(tmp_path.glob("b.*"))


def test_only_shortened_tables_are_listed_in_full_on_demand() -> None:
    with pytest.raises(UsageError, match="no table 'kernels' to list in full"):
        nr.analyze(FIXTURE, complete=("kernels",))
