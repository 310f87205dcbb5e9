"""Writes ``docs/supported.md`` from the catalogues: ``python -m tests.supported.page``."""

from __future__ import annotations

from pathlib import Path

from nsysroof.theory.gpus import Gpu, find_gpu, gpu_keys
from nsysroof.theory.models.spec import ModelSpec, find_model, model_keys
from nsysroof.theory.models.weights import count_parameters
from nsysroof.trace.contract import NEWEST_SCHEMA
from nsysroof.units import format_bytes, format_rate

PAGE = Path(__file__).parents[2] / "docs/supported.md"

_HEAD = """\
# What is supported

`python -m tests.supported.page` writes this page from the catalogues.

## Exports

SQLite and `parquetdir` exports of Nsight Systems up to schema {newest}; tables are known by their
columns, so older versions, back to those without a version, are read too. A newer schema is read
with the finding `schema-newer`. A `.nsys-rep` opens where `nsys` is on PATH.

## GPUs

`--gpu FILE.toml` takes any other; a GPU that a capture describes but no catalogue lists gets peaks
by formula, and the report says so.

| key | GPU | memory | bandwidth | bf16 | fp8 | fp4 |
|---|---|---|---|---|---|---|
"""
_MODELS = """
## Models

Any Hugging Face `config.json` of one of these types works too. Parameters are those of the whole
decoder, and those of its layers that work on one token.

| name | type | layers | parameters | on one token |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    newest = ".".join(str(part) for part in NEWEST_SCHEMA)
    gpus = "".join(_gpu(find_gpu(key)) for key in gpu_keys())
    models = "".join(_model(key, find_model(key)) for key in model_keys())
    return _HEAD.format(newest=newest) + gpus + _MODELS + models


def _gpu(gpu: Gpu) -> str:
    peaks = gpu.dense_peaks()
    bandwidth = format_rate(peaks.value("bw"), "B")
    rates = [format_rate(peaks.value(key), "FLOP") for key in ("bf16", "fp8", "fp4")]
    memory = " or ".join(format_bytes(size) for size in gpu.memory_bytes)
    cells = (f"`{gpu.key}`", gpu.name, memory, bandwidth, *rates)
    return f"| {' | '.join(cells)} |\n"


def _model(key: str, model: ModelSpec) -> str:
    counted = count_parameters(model)
    total, active = (f"{number / 1e9:,.1f} G" for number in (counted.total, counted.active))
    cells = (f"`{key}`", model.model_type, str(len(model.layers)), total, active)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
