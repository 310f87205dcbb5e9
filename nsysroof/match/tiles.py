"""What a grid tells of a matrix product, where the kernel's name tells its tile.

The rule holds for nvjet kernels: the grid counts output tiles, features along the first tile
dimension and tokens along the second, rounded up to the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nsysroof.match.rules import KernelClass

_NVJET = "nvjet."
_FULL = 0.9  # a grid that covers the SMs may be a persistent kernel, whose grid tells nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledLaunch:
    """A matrix product with its tile and its grid.

    Attributes:
        role: The operator it was found to be.
        features: Columns of the output that the model asks for.
        tokens: Rows of the output.
        tile_features: Columns of one tile.
        tile_tokens: Rows of one tile.
        cluster: Blocks of a cluster, to which the grid is rounded up.
        blocks: Blocks of the grid.
    """

    role: str
    features: int
    tokens: int
    tile_features: int
    tile_tokens: int
    cluster: int
    blocks: int

    def fits(self, *, features: int | None = None, tokens: int | None = None) -> bool:
        """Return whether the grid covers an output of this size, by default the model's.

        >>> qkv = TiledLaunch(role="attn.qkv_proj", features=6144, tokens=16, tile_features=64,
        ...                   tile_tokens=16, cluster=4, blocks=96)
        >>> qkv.fits(), qkv.fits(tokens=17), qkv.fits(features=3072)
        (True, False, False)
        """
        columns = -(-(features or self.features) // self.tile_features)
        rows = -(-(tokens or self.tokens) // self.tile_tokens)
        return self.blocks == -(-columns * rows // self.cluster) * self.cluster

    def token_range(self) -> tuple[int, int] | None:
        """Return the fewest and most tokens that the grid fits, None where none does."""
        columns = -(-self.features // self.tile_features)
        rows = [
            rows
            for rows in range(1, self.blocks // columns + 2)
            if self.fits(tokens=rows * self.tile_tokens)
        ]
        if not rows:
            return None
        return (rows[0] - 1) * self.tile_tokens + 1, rows[-1] * self.tile_tokens


def tiled_launch(
    kernel: KernelClass, role: str, *, features: int, tokens: int, blocks: int, sm_count: int | None
) -> TiledLaunch | None:
    """Return what a launch tells, None where its name or its grid does not tell.

    Split-K multiplies the grid by a number that the name does not give, and a grid that just
    covers the SMs may be that of a persistent kernel.
    """
    told = kernel.attributes
    if kernel.rule is None or not kernel.rule.startswith(_NVJET) or told.get("split_k"):
        return None
    tile_features, tile_tokens = told.get("tile_m"), told.get("tile_n")
    if not isinstance(tile_features, int) or not isinstance(tile_tokens, int):
        return None
    if sm_count is not None and _FULL * sm_count <= blocks <= sm_count:
        return None
    cluster = 1
    for part in str(told.get("cluster", "1x1")).split("x"):
        cluster *= int(part)
    return TiledLaunch(
        role=role,
        features=features,
        tokens=tokens,
        tile_features=tile_features,
        tile_tokens=tile_tokens,
        cluster=cluster,
        blocks=blocks,
    )


def generation_grid(kernel: KernelClass, grid: Sequence[int]) -> tuple[int, int] | None:
    """Return KV heads and sequences that a decode attention kernel covers, where its grid tells.

    Kernels of the TensorRT-LLM generator launch (KV splits, KV heads, sequences).
    """
    if kernel.rule != "trtllm_gen.decode":
        return None
    return grid[1], grid[2]
