"""Distinct texts under dense numbers: what frames hold instead of a text in each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

UNKNOWN_TEXT = "[Unknown]"
"""What exports themselves write for a name that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextIndex:
    """Distinct ``texts`` in ascending order; ``ids[i]`` of the export has number ``numbers[i]``."""

    texts: list[str]
    ids: np.ndarray
    numbers: np.ndarray

    def number(self, ids: pl.Series) -> pl.Series:
        """Return, for each id of the export, the number of its text."""
        parts = [
            pl.Series(self.numbers[np.searchsorted(self.ids, chunk.to_numpy())], dtype=pl.UInt32)
            for chunk in ids.get_chunks()
        ]
        return pl.concat([pl.Series(ids.name, [], dtype=pl.UInt32), *parts], rechunk=False)


def index_texts(
    ids: list[int],
    texts: Mapping[int, str],
    spell: Callable[[str], str] = str,
) -> TextIndex:
    """Return the index of the texts of ``ids``; ids with the same text share a number.

    >>> index = index_texts([4, 9, 7], {4: "b", 7: "a", 9: "b"})
    >>> index.texts, index.number(pl.Series([9, 7, 4])).to_list()
    (['a', 'b'], [1, 0, 1])
    """
    ordered = sorted(ids)
    spelled = [spell(texts.get(number, UNKNOWN_TEXT)) for number in ordered]
    distinct = sorted(set(spelled))
    position = {text: number for number, text in enumerate(distinct)}
    return TextIndex(
        texts=distinct,
        ids=np.array(ordered, dtype=np.uint32),
        numbers=np.array([position[text] for text in spelled], dtype=np.uint32),
    )
