"""Bytes of a launch from its name, grid and block, where no model says what it computes.

PyTorch's element-wise kernels give each thread a number of elements that its release fixes, and
each block but the last is full; so the grid tells the elements up to one block, and the template
arguments tell operands and element sizes. Each of these may be a range: the result is the fewest
and the most bytes, and no more than that is known. They are bytes of elements, each read or
written once: what caches save or strided access wastes is not in them.

Work per thread, by release of PyTorch: 4 elements; later 8 in contiguous kernels, or 16 where an
element is one byte in all, and still 4 in the others, which then say so in a template argument.
Concatenations take 8 or 16 aligned bytes per thread of the longest input, a row of the grid per
input. A reduction has at least one input per thread; how many a thread loops over is not in the
launch. Neither the elements of a block nor the operands are in the name of a Triton kernel, so
nothing is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

import polars as pl

from nsysroof.match.functors import (
    ANY_SIZE,
    Signature,
    Span,
    element_bytes,
    exactly,
    signature_of,
    split_arguments,
)
from nsysroof.match.names import spell_names

_NAME = re.compile(
    r"(?:\w+::)*(vectorized_elementwise_kernel|unrolled_elementwise_kernel"
    r"|elementwise_kernel(?:_manual_unroll)?|reduce_kernel|CatArrayBatchedCopy_al\w+_contig)<"
)
_ANY = re.compile(r"elementwise_kernel|reduce_kernel|CatArrayBatchedCopy")
_OPERANDS = re.compile(r"(?:std::array|at::detail::Array)<char\*, (\d+)>$")
_ELDER_ARRAY = "at::detail::Array"  # of the releases that had no more than 4 elements per thread
_CAT_BLOCKS_PER_SM = 32  # from which on a block of a concatenation loops


class Shape(StrEnum):
    """How a grid covers the elements."""

    FLAT = "flat"  # every block a stretch of all elements
    ROWS = "rows"  # a row of blocks per input
    LOOP = "loop"  # threads loop over more than the grid shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the name of a kernel tells of the memory it touches.

    Attributes:
        shape: How its grid covers the elements.
        per_thread: Elements of each thread of a full block (``ROWS``: bytes).
        signature: Bytes of an element of each operand.
        strided: Whether an input may be broadcast, and be read from far fewer bytes.
    """

    shape: Shape
    per_thread: Span
    signature: Signature
    strided: bool = False

    @property
    def per_element(self) -> Span:
        """Bytes that one element of the result is read from and written as."""
        total = self.signature.output
        for size in self.signature.inputs:
            total += Span(low=0, high=size.high) if self.strided else size
        return total

    def __str__(self) -> str:
        """Return it in words."""
        if self.shape is Shape.ROWS:
            return f"{self.per_thread} B of the longest input a thread, each read and written once"
        if self.shape is Shape.LOOP:
            return f"at least one element of {self.per_element} B a thread"
        moved = f"{self.per_thread} elements a thread, {self.per_element} B of memory an element"
        return f"{moved}, inputs may be broadcast" if self.strided else moved

    def traffic(self, grid: Sequence[int], block: Sequence[int]) -> Span:
        """Return the fewest and the most bytes of a launch; None: nothing limits them.

        Args:
            grid: Blocks in x, y and z.
            block: Threads in x, y and z.
        """
        threads = prod(block)
        if self.shape is Shape.ROWS:
            return self._rows(grid, threads)
        # Blocks of the last column may all be partly empty.
        full = prod(grid) - prod(grid[1:])
        if self.shape is Shape.LOOP:
            elements = Span(low=full * threads + 1, high=None)
        else:
            most = self.per_thread.high
            elements = Span(
                low=full * threads * self.per_thread.low + 1,
                high=None if most is None else prod(grid) * threads * most,
            )
        return elements * self.per_element

    def _rows(self, grid: Sequence[int], threads: int) -> Span:
        """Return the bytes of a concatenation: each input is read once and written once.

        The longest input fills all columns but the last; the others may be as short as nothing.
        """
        columns, inputs = grid[0], grid[1]
        per_block = threads * self.per_thread.low
        # A grid as wide as its limit may hide a loop, and only the GPU would tell the limit.
        most = None if columns % _CAT_BLOCKS_PER_SM == 0 else 2 * columns * inputs * per_block
        return Span(low=2 * ((columns - 1) * per_block + 1), high=most)


def access_of(name: str) -> Access | None:
    """Return what a kernel name tells of the memory its launches touch; None: nothing.

    >>> add = "void at::native::vectorized_elementwise_kernel<8, "
    >>> add += "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, T2, T3)"
    >>> access_of(add).traffic([10, 1, 1], [128, 1, 1])
    Span(low=55302, high=61440)
    >>> access_of("triton_poi_fused_mul_silu_1") is None
    True
    """
    return accesses_of([name])[0]


def accesses_of(names: Sequence[str]) -> list[Access | None]:
    """Return what each name tells, as ``access_of`` does; many take little longer than one."""
    # Most names are none of these, and spelling one takes longer.
    telling = [name for name in names if _ANY.search(name)]
    texts = spell_names(pl.Series(telling, dtype=pl.String()))["text"]
    found = dict(zip(telling, map(_access, texts), strict=True))
    return [found.get(name) for name in names]


def _access(text: str) -> Access | None:
    found = _NAME.match(text)
    if found is None:
        return None
    arguments = split_arguments(text[found.end() :])
    if arguments is None:  # the name was cut
        return None
    kernel = found[1]
    if kernel.startswith("CatArray"):
        return _concatenation(kernel, arguments)
    if kernel == "reduce_kernel":
        return _reduction(arguments)
    if kernel == "vectorized_elementwise_kernel":
        return _vectorized(arguments)
    if kernel == "unrolled_elementwise_kernel":
        return _unrolled(arguments)
    return _strided(arguments)


def _vectorized(arguments: list[str]) -> Access | None:
    """``<vector width, functor, array of operands>``; its types are those of the functor."""
    if len(arguments) < 3 or not arguments[0].isdecimal():
        return None
    signature = _agreed(signature_of(arguments[1], converts=False), arguments[2])
    if signature is None:
        return None
    total = sum(signature.inputs, start=signature.output)
    newer = Span(low=16 if total == exactly(1) else 8, high=16 if total.low == 1 else 8)
    if int(arguments[0]) >= 8:
        per_thread = newer
    elif arguments[2].startswith(_ELDER_ARRAY):
        per_thread = exactly(4)
    else:
        per_thread = Span(low=4, high=newer.high)
    return Access(shape=Shape.FLAT, per_thread=per_thread, signature=signature)


def _unrolled(arguments: list[str]) -> Access | None:
    """``<functor, array of operands, [elements per thread,] offsets in, out, loader, storer>``."""
    if len(arguments) < 6:
        return None
    converts = any("WithCast<" in argument for argument in arguments[-2:])
    signature = _agreed(signature_of(arguments[0], converts=converts), arguments[1])
    if signature is None:
        return None
    told = arguments[2]
    return Access(
        shape=Shape.FLAT,
        per_thread=exactly(int(told) if told.isdecimal() else 4),
        signature=signature,
        strided=not arguments[-4].startswith("TrivialOffsetCalculator"),
    )


def _strided(arguments: list[str]) -> Access | None:
    """``<threads, elements per thread, gpu_kernel_impl[_nocast]<functor>(…)::{lambda(int)#1}>``."""
    if len(arguments) < 3 or not arguments[1].isdecimal():
        return None
    outer = re.match(r"(?:void )?(?:\w+::)*gpu_kernel_impl(_nocast)?<", arguments[2])
    functor = split_arguments(arguments[2][outer.end() :]) if outer is not None else None
    if outer is None or not functor:
        return None
    # Elder releases took the same function for conversions as for none.
    signature = signature_of(functor[0], converts=outer[1] is None)
    return Access(
        shape=Shape.FLAT,
        per_thread=exactly(int(arguments[1])),
        signature=signature or Signature(inputs=(ANY_SIZE,), output=ANY_SIZE),
        strided=True,
    )


def _reduction(arguments: list[str]) -> Access | None:
    """``<threads, outputs per thread, ReduceOp<element type, …>>``."""
    inner = re.match(r"(?:\w+::)*ReduceOp<", arguments[2]) if len(arguments) > 2 else None
    types = split_arguments(arguments[2][inner.end() :]) if inner is not None else None
    if not types:
        return None
    signature = Signature(inputs=(element_bytes(types[0]),), output=exactly(0))
    return Access(shape=Shape.LOOP, per_thread=Span(low=1, high=None), signature=signature)


def _concatenation(kernel: str, arguments: list[str]) -> Access | None:
    """``…_aligned16_contig<T, …>``, ``…_alignedK_contig<T, index, dims, batch, stride, K>``."""
    told = arguments[-1] if "alignedK" in kernel else re.sub(r"\D", "", kernel)
    if not told.isdecimal():
        return None
    size = element_bytes(arguments[0])
    signature = Signature(inputs=(size,), output=size)
    return Access(shape=Shape.ROWS, per_thread=exactly(int(told)), signature=signature)


def _agreed(signature: Signature | None, array: str) -> Signature | None:
    """Return a signature that has as many operands as the array of their addresses."""
    told = _OPERANDS.match(array)
    if told is None:
        return None
    operands = int(told[1])
    if signature is None:
        return Signature(inputs=(ANY_SIZE,) * (operands - 1), output=ANY_SIZE)
    return signature if len(signature.inputs) == operands - 1 else None
