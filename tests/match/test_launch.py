"""Bytes from launch geometry, against tensors whose size is known."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.match.functors import Span, exactly
from nsysroof.match.launch import access_of

NATIVE = "at::native::"
PLAIN = "TrivialOffsetCalculator<1, unsigned int>"
LOADED = "at::native::memory::LoadWithoutCast, at::native::memory::StoreWithoutCast"
CAST = "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>"
COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
    "const::{lambda()#7}::operator()() const::{lambda(float)#1}"
)

BF16_COPY = (
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::bfloat16_copy_kernel_cuda"
    "(at::TensorIteratorBase &)::[lambda(float) (instance 1)], std::array<char *, "
    "(unsigned long)2>>(int, T2, T3)"
)


def array(operands: int, *, elder: bool = False) -> str:
    return f"at::detail::Array<char*, {operands}>" if elder else f"std::array<char*, {operands}ul>"


def vectorized(width: int, functor: str, operands: int, *, elder: bool = False) -> str:
    arguments = f"{width}, {functor}, {array(operands, elder=elder)}"
    return f"void at::native::vectorized_elementwise_kernel<{arguments} >(int, {functor})"


def unrolled(functor: str, operands: int, policy: str, *, offsets: str = PLAIN) -> str:
    arguments = f"{functor}, {array(operands)}, 4, {offsets}, {PLAIN}, {policy}"
    return f"void at::native::unrolled_elementwise_kernel<{arguments} >(int)"


def strided(per_thread: int, functor: str, *, kernel: str = "gpu_kernel_impl_nocast") -> str:
    inner = f"at::native::{kernel}<{functor} >(at::TensorIteratorBase&, {functor} const&)"
    return (
        f"void at::native::elementwise_kernel<128, {per_thread}, {inner}::{{lambda(int)#1}}>(int)"
    )


def traffic(name: str, blocks: int, threads: int = 128) -> Span:
    access = access_of(name)
    assert access is not None
    return access.traffic([blocks, 1, 1], [threads, 1, 1])


@pytest.mark.parametrize(
    ("name", "blocks", "expected"),
    [
        # 10 blocks of 128 x 8 elements, the last one holding 1 to 1,024; 2 + 2 B read, 2 written.
        (
            vectorized(8, f"{NATIVE}CUDAFunctor_add<c10::BFloat16>", 3),
            10,
            Span(low=(9 * 1024 + 1) * 6, high=10 * 1024 * 6),
        ),
        # A vector width of 4 is that of releases with 4 and with 8 elements a thread.
        (
            vectorized(4, f"{NATIVE}CUDAFunctorOnSelf_add<float>", 2),
            3,
            Span(low=(2 * 512 + 1) * 8, high=3 * 1024 * 8),
        ),
        # The array type of elder releases tells which it was.
        (
            vectorized(4, f"{NATIVE}CUDAFunctorOnSelf_add<float>", 2, elder=True),
            3,
            Span(low=(2 * 512 + 1) * 8, high=3 * 512 * 8),
        ),
        # One byte in all: 16 elements a thread.
        (
            vectorized(8, f"{NATIVE}FillFunctor<bool>", 1),
            2,
            Span(low=128 * 16 + 1, high=2 * 128 * 16),
        ),
        # The result of a comparison is one byte: 4 + 4 + 1.
        (
            vectorized(
                8, f"{NATIVE}BinaryFunctor<float, float, bool, {NATIVE}CompareEqFunctor<float> >", 3
            ),
            1,
            Span(low=9, high=1024 * 9),
        ),
        # BF16 from FP32: 4 read, 2 written.
        (
            BF16_COPY,
            1,
            Span(low=6, high=1024 * 6),
        ),
        # A conversion into FP32, from any type of 1 to 8 bytes.
        (unrolled(COPY, 2, CAST), 2, Span(low=(512 + 1) * 5, high=2 * 512 * 12)),
        (unrolled(COPY, 2, LOADED), 2, Span(low=(512 + 1) * 8, high=2 * 512 * 8)),
        # An input with strides may be broadcast from a few bytes; the output is not.
        (
            unrolled(COPY, 2, LOADED, offsets="OffsetCalculator<1, unsigned int, false>"),
            2,
            Span(low=(512 + 1) * 4, high=2 * 512 * 8),
        ),
        (strided(2, COPY), 2, Span(low=(256 + 1) * 4, high=2 * 256 * 8)),
        # A condition of 1 B and a value of 2 B make 2 B.
        (
            strided(
                4,
                "at::native::(anonymous namespace)::masked_fill_kernel(at::TensorIterator&, "
                "c10::Scalar const&)::{lambda()#1}::operator()() const::{lambda()#12}::"
                "operator()() const::{lambda(c10::BFloat16, bool)#1}",
            ),
            1,
            Span(low=2, high=512 * 5),
        ),
        # The elder function converts too, where it must: only what it computes in is known.
        (
            strided(2, f"{NATIVE}CUDAFunctor_add<float>", kernel="gpu_kernel_impl"),
            1,
            Span(low=1, high=256 * 24),
        ),
    ],
)
def test_bytes_by_hand(name: str, blocks: int, expected: Span) -> None:
    assert traffic(name, blocks) == expected


def test_what_is_not_told_has_no_most() -> None:
    # Three operands of types that the functor keeps to itself: at least 3 B an element.
    assert traffic(vectorized(8, "house::Functor", 3), 2) == Span(low=(1024 + 1) * 3, high=None)
    # What a lambda returns is not in its name.
    lost = "house::op(at::Tensor&)::{lambda(double)#1}"
    assert traffic(vectorized(8, lost, 2), 1) == Span(low=8 + 1, high=None)


def test_a_reduction_reads_an_element_a_thread_at_least() -> None:
    name = (
        "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, "
        "at::native::MeanOps<float, float, float, float>, unsigned int, float, (int)4, (int)4>>(T3)"
    )
    access = access_of(name)
    assert access is not None
    # 975 blocks of 32 x 16 threads, the last of which may have one at work.
    assert access.traffic([975, 1, 1], [32, 16, 1]) == Span(low=(974 * 512 + 1) * 4, high=None)
    # Blocks side by side in y share their outputs: any of the last column may be cut short.
    assert access.traffic([10, 3, 1], [32, 16, 1]) == Span(low=(27 * 512 + 1) * 4, high=None)


CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy_{kind}<at::native::(anonymous "
    "namespace)::OpaqueType<2u>, unsigned int, 3, 128, 1{more}>(char*)"
)


def test_a_concatenation_has_a_row_of_blocks_per_input() -> None:
    wide = access_of(CAT.format(kind="aligned16_contig", more=""))
    narrow = access_of(CAT.format(kind="alignedK_contig", more=", 8"))
    assert wide is not None
    assert narrow is not None
    # 2 inputs, 5 blocks of 128 x 16 B: the longest has 4 x 2,048 B and a bit more.
    grid, block = [5, 2, 1], [128, 1, 1]
    assert wide.traffic(grid, block) == Span(low=2 * (4 * 2048 + 1), high=2 * 2 * 5 * 2048)
    assert narrow.traffic(grid, block) == Span(low=2 * (4 * 1024 + 1), high=2 * 2 * 5 * 1024)
    # 32 blocks an SM is where blocks begin to loop: 132 SMs may hide any size.
    assert wide.traffic([4224, 2, 1], block).high is None


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_mul_silu_1",  # neither operands nor elements of a block
        CAT.format(kind="contig", more=""),  # a grid of the GPU's size, whatever it copies
        vectorized(8, f"{NATIVE}CUDAFunctor_add<float>", 2),  # operands that do not agree
        vectorized(8, f"{NATIVE}CUDAFunctor_add<float>", 3)[:90],  # cut by a table
        "void cublasLt::splitKreduce_kernel<32, 16, int, float>(float*)",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<int> >()",
        "elementwise_kernel",
        "",
    ],
)
def test_nothing_is_said_where_the_name_does_not_tell(name: str) -> None:
    assert access_of(name) is None


TYPES = {"float": 4, "c10::BFloat16": 2, "c10::Half": 2, "double": 8, "bool": 1, "long": 8}


@given(
    elements=st.integers(1, 10**9),
    types=st.tuples(*[st.sampled_from(sorted(TYPES))] * 3),
    newer=st.booleans(),
)
def test_the_truth_lies_between_least_and_most(
    elements: int, types: tuple[str, str, str], newer: bool
) -> None:
    """Launch as PyTorch does, of either release, and count the bytes."""
    size = sum(TYPES[name] for name in types)
    functor = f"{NATIVE}BinaryFunctor<{', '.join(types)}, house::Op<float> >"
    per_thread = 8 if newer else 4
    found = traffic(vectorized(4, functor, 3), ceil(elements / (128 * per_thread)))
    assert found.high is not None
    assert found.low <= elements * size <= found.high
    if newer:
        exact = traffic(vectorized(8, functor, 3), ceil(elements / 1024))
        assert exact.high is not None
        assert exact.low <= elements * size <= exact.high
        assert exact.high - exact.low == (1024 - 1) * size  # known up to the last block


@given(st.text(max_size=40), st.integers(0, 300), st.sampled_from(["²", "<", ">", ",", "(", ""]))
def test_no_name_is_too_odd(rest: str, cut: int, sign: str) -> None:
    whole = unrolled(COPY, 2, CAST)
    for name in (whole[:cut] + sign + whole[cut:], whole[:cut] + rest, f"reduce_kernel<{rest}"):
        access = access_of(name)
        if access is not None:
            assert access.traffic([2, 1, 1], [128, 1, 1]).low >= 0


def test_spans_add_and_multiply() -> None:
    assert Span(low=1, high=None) + exactly(4) == Span(low=5, high=None)
    assert Span(low=2, high=3) * Span(low=10, high=20) == Span(low=20, high=60)
    assert (exactly(3) * Span(low=1, high=None)).high is None
