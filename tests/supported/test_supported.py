"""The page of what is supported is that of the catalogues."""

from __future__ import annotations

import re

from nsysroof.theory.gpus import gpu_keys
from nsysroof.theory.models.spec import model_keys
from tests.supported.page import PAGE, page


def test_the_page_is_that_of_the_catalogues() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.supported.page"


def test_every_gpu_and_model_is_on_it_with_known_figures() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", page(), re.MULTILINE))
    assert set(rows) == {*gpu_keys(), *model_keys()}
    assert rows["h100-sxm"].split(" | ")[1:4] == ["80.0 GB", "3.35 TB/s", "989 TFLOP/s"]
    # 8.03e9 parameters, published; without the embedding table 7.0e9 in the layers
    assert rows["llama-3.1-8b"] == "llama | 32 | 8.0 G | 7.0 G"
