"""Peaks as users state them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysroof.errors import InputError, UsageError
from nsysroof.theory.peaks import parse_peaks, read_roofs


@pytest.mark.parametrize("option", ["bw", "bw=fast", "bandwidth=3e12", "=1e12", "bw=-1e12"])
def test_unreadable_peaks_are_refused(option: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_peaks([option])
    assert caught.value.slug == "bad-peak"


def test_gigabytes_for_bytes_are_caught_o24() -> None:
    with pytest.raises(UsageError) as caught:
        parse_peaks(["bw=152.8"])
    assert "152.8e9" in caught.value.hint


def test_roofs_file_carries_its_source(tmp_path: Path) -> None:
    path = tmp_path / "roofs.toml"
    path.write_text('source = "nvbandwidth 0.8"\n[roofs]\nbw = 3.72e12\nh2d = 418e9\n')
    roofs = read_roofs(path)
    assert roofs["h2d"] == (418e9, "measured: nvbandwidth 0.8")
    assert list(roofs) == ["bw", "h2d"]


@pytest.mark.parametrize(
    "text", ["[roofs]\nbw = 3e12\n", 'source = "x"\n', 'source = "x"\nroofs = 1\n', "source = "]
)
def test_incomplete_roofs_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "roofs.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_roofs(path)
    assert caught.value.slug == "bad-roofs"


def test_roof_of_an_unknown_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "roofs.toml"
    path.write_text('source = "x"\n[roofs]\nhbm = 3e12\n')
    with pytest.raises(UsageError, match="unknown peak 'hbm'"):
        read_roofs(path)
