"""What one element costs an ATen kernel: bytes read and written, from the functor in its name.

A functor tells its element types where PyTorch spells them: ``FillFunctor<T>``,
``CUDAFunctor_add<T>``, ``BinaryFunctor<A, B, Result, …>`` and the arguments of a lambda. Where an
operand is converted on the fly only the functor's own type is known, and the size is a range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

_SIZES = MappingProxyType(
    {
        "bool": 1,
        "char": 1,
        "signed char": 1,
        "unsigned char": 1,
        "short": 2,
        "unsigned short": 2,
        "int": 4,
        "unsigned int": 4,
        "long": 8,
        "unsigned long": 8,
        "long long": 8,
        "float": 4,
        "double": 8,
        "Half": 2,
        "__half": 2,
        "BFloat16": 2,
        "__nv_bfloat16": 2,
        "complex<Half>": 4,
        "complex<float>": 8,
        "complex<double>": 16,
    }
)
_OPAQUE = re.compile(r"OpaqueType<(\d+)>$")
_LAMBDA = re.compile(r"\{lambda\(([^{}()]+)\)#\d+\}")
_CLOSERS = MappingProxyType({"<": ">", "(": ")", "{": "}", "[": "]"})

_SAME_TYPE = re.compile(
    r"(?:^|[:<])(?:abs|ceil|clamp|cos|direct_copy|elu|erf|exp|fill|floor|gelu|GeluCUDA|hardswish"
    r"|leaky_relu|log|masked_fill|mish|neg|pow_tensor_scalar|reciprocal|round|rsqrt|sigmoid|sign"
    r"|silu|sin|softplus|sqrt|square|tanh|threshold|where)(?:_backward)?(?:_kernel|Kernel)"
    r"|\blaunch_clamp_scalar\b"
)
"""Kernels whose result has the type of their first argument; comparisons have another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A number that lies between two; ``high`` is None where nothing limits it."""

    low: int
    high: int | None

    def __str__(self) -> str:
        """Return it in words.

        >>> f"{exactly(4)}, {Span(low=1, high=8)}, {ANY_SIZE}"
        '4, 1 to 8, at least 1'
        """
        if self.high is None:
            return f"at least {self.low}"
        return f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"

    def __add__(self, other: Span) -> Span:
        """Return the span of a sum."""
        return Span(low=self.low + other.low, high=_both(self.high, other.high, times=False))

    def __mul__(self, other: Span) -> Span:
        """Return the span of a product."""
        return Span(low=self.low * other.low, high=_both(self.high, other.high, times=True))


def exactly(number: int) -> Span:
    """Return the span of a number that is known.

    >>> exactly(4) * Span(low=1, high=8)
    Span(low=4, high=32)
    """
    return Span(low=number, high=number)


ANY_SIZE = Span(low=1, high=None)
"""Bytes of an element of a type that is not told."""
CONVERTED = Span(low=1, high=8)
"""Bytes of an element that is converted to or from a real type: int8 or FP8 to int64 or FP64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Bytes of one element of each input, and of the output."""

    inputs: tuple[Span, ...]
    output: Span


def element_bytes(name: str) -> Span:
    """Return the bytes of one element of a C++ type.

    >>> element_bytes("c10::BFloat16"), element_bytes("at::native::OpaqueType<4>").low
    (Span(low=2, high=2), 4)
    >>> element_bytes("some::Type")
    Span(low=1, high=None)
    """
    plain = re.sub(r"\b(?:c10|at|native)::| const\b|&", "", name).strip()
    opaque = _OPAQUE.match(plain)
    if opaque is not None:
        return exactly(int(opaque[1]))
    if plain.startswith(("Float8_", "__nv_fp8_")):
        return exactly(1)
    size = _SIZES.get(plain)
    return ANY_SIZE if size is None else exactly(size)


def split_arguments(text: str) -> list[str] | None:
    """Return the comma-separated arguments at the start of ``text``, up to the closing bracket.

    None where the name was cut before it.

    >>> split_arguments("4, F<int, (int)2>, std::array<char*, 3> >(int, T2)")
    ['4', 'F<int, (int)2>', 'std::array<char*, 3>']
    """
    closers: list[str] = []
    found, start = [], 0
    for at, character in enumerate(text):
        if character in _CLOSERS:
            closers.append(_CLOSERS[character])
        elif closers and character == closers[-1]:
            closers.pop()
        elif not closers and character in ",>)}]":
            found.append(text[start:at].strip())
            start = at + 1
            if character != ",":
                return found
    return None


def signature_of(functor: str, *, converts: bool) -> Signature | None:
    """Return what a functor reads and writes per element, None where it does not tell.

    Args:
        functor: A functor type in normalised spelling.
        converts: Whether operands are converted on the fly, so that none needs to have the type
            that the functor computes in.

    >>> signature_of("at::native::CUDAFunctor_add<c10::BFloat16>", converts=False).output
    Span(low=2, high=2)
    """
    found = _of_template(functor) or _of_lambda(functor)
    if found is None or not converts:
        return found
    # A copy is dispatched on the type of its output; all that a conversion may change is its input.
    output = found.output if "direct_copy_kernel" in functor else CONVERTED
    return Signature(inputs=(CONVERTED,) * len(found.inputs), output=output)


def _of_template(functor: str) -> Signature | None:
    name, _, rest = functor.partition("<")
    types = split_arguments(rest) if rest else None
    if types is None:
        return None
    sizes = [element_bytes(told) for told in types]
    match name.rpartition("::")[2]:
        case "FillFunctor":
            return Signature(inputs=(), output=sizes[0])
        case "CUDAFunctor_add":
            return Signature(inputs=(sizes[0], sizes[0]), output=sizes[0])
        case "AbsFunctor" | "CUDAFunctorOnSelf_add" | "CUDAFunctorOnOther_add":
            return Signature(inputs=(sizes[0],), output=sizes[0])
        case "CompareFunctor":
            return Signature(inputs=(sizes[0], sizes[0]), output=exactly(1))
        case "BinaryFunctor" if len(sizes) > 2:
            return Signature(inputs=(sizes[0], sizes[1]), output=sizes[2])
        case "AUnaryFunctor" if len(sizes) > 2:
            return Signature(inputs=(sizes[1],), output=sizes[2])
        case "BUnaryFunctor" if len(sizes) > 2:
            return Signature(inputs=(sizes[0],), output=sizes[2])
    return None


def _of_lambda(functor: str) -> Signature | None:
    lambdas = _LAMBDA.findall(functor)
    arguments = split_arguments(f"{lambdas[-1]})") if lambdas else None
    if not arguments:
        return None
    inputs = tuple(element_bytes(told) for told in arguments)
    output = ANY_SIZE
    if re.search(r"\b(?:bfloat16|float16)_copy_kernel", functor):
        output = exactly(2)
    elif re.search(r"\bfloat8_\w*copy_kernel|\bcompare_scalar_kernel", functor):
        output = exactly(1)
    elif _SAME_TYPE.search(functor):
        # where(condition, a, b) computes in the type of what it chooses from.
        output = inputs[-1] if "where_kernel" in functor else inputs[0]
    return Signature(inputs=inputs, output=output)


def _both(one: int | None, other: int | None, *, times: bool) -> int | None:
    if one is None or other is None:
        return None
    return one * other if times else one + other
