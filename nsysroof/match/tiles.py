"""What a grid tells of a matrix product, where the kernel's name tells its tile.

Two grammars do. In nvjet kernels the grid counts output tiles, features along the first tile
dimension and tokens along the second, rounded up to the cluster. In the experts' products of the
TensorRT-LLM generator (``bmm_…``) grid.x counts tiles of features, which may be padded, and grid.y
the most tiles that any routing can fill: each expert may leave one tile open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nsysroof.match.rules import KernelClass

_NVJET = "nvjet."
_EXPERTS = "trtllm_gen.bmm"
_PADDING = 1.5  # of features: 2 x 360 were seen padded to 1024, 2880 to 3072
_BLOCK_PER_TOKEN = re.compile(
    r"\b(vllm::(fused_add_)?rms_norm|vllm::rotary_embedding|vllm::reshape_and_cache_flash"
    r"|vllm::act_and_mul|flashinfer::norm::(FusedAdd)?RMSNorm|flashinfer::activation::act_and_mul)"
    r"_?[Kk]ernel<"
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLaunch:
    """A product over experts with its tile and its grid.

    Attributes:
        role: The operator it was found to be.
        features: Columns of the output of one expert.
        tokens: Tokens of the step.
        experts: Experts on this GPU.
        top_k: Experts of each token.
        tile_features: Columns of one tile.
        tile_tokens: Rows of one tile.
        columns: Tiles along the features, grid.x.
        tiles: Tiles along the rows, grid.y.
    """

    role: str
    features: int
    tokens: int
    experts: int
    top_k: int
    tile_features: int
    tile_tokens: int
    columns: int
    tiles: int

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.columns * self.tiles

    def fits(self, *, features: int | None = None, tokens: int | None = None) -> bool:
        """Return whether the grid covers outputs of this size, by default the model's.

        >>> down = ExpertLaunch(role="moe.down", features=2880, tokens=888, experts=128, top_k=4,
        ...                     tile_features=128, tile_tokens=16, columns=24, tiles=342)
        >>> down.fits(), down.fits(tokens=900), down.fits(features=1440), down.fits(features=5760)
        (True, False, False, False)
        """
        wanted = features or self.features
        covered = self.columns * self.tile_features
        return wanted <= covered <= _PADDING * wanted and self.tiles == self._most_tiles(
            tokens or self.tokens
        )

    def token_range(self) -> tuple[int, int] | None:
        """Return the fewest and most tokens that the grid fits, None where none does."""
        least = greatest = self.tiles
        if self.tiles >= self.experts:
            least = self.experts + (self.tiles - self.experts) * self.tile_tokens
            greatest = least + self.tile_tokens - 1
        low, high = -(-least // self.top_k), greatest // self.top_k
        return (low, high) if low <= high and self.fits(tokens=low) else None

    def _most_tiles(self, tokens: int) -> int:
        rows = tokens * self.top_k
        full = (rows - self.experts) // self.tile_tokens
        return self.experts + full if rows >= self.experts else rows


def expert_launch(
    kernel: KernelClass,
    role: str,
    *,
    features: int,
    tokens: int,
    experts: int,
    top_k: int,
    grid: Sequence[int],
) -> ExpertLaunch | None:
    """Return what a launch over experts tells, None where its name does not tell."""
    told = kernel.attributes
    tile_features, tile_tokens = told.get("tile_m"), told.get("tile_n")
    if kernel.rule != _EXPERTS or grid[2] != 1:
        return None
    if not isinstance(tile_features, int) or not isinstance(tile_tokens, int):
        return None
    return ExpertLaunch(
        role=role,
        features=features,
        tokens=tokens,
        experts=experts,
        top_k=top_k,
        tile_features=tile_features,
        tile_tokens=tile_tokens,
        columns=grid[0],
        tiles=grid[1],
    )


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


def token_grid(kernel: KernelClass, grid: Sequence[int]) -> int | None:
    """Return the rows that a kernel with one block per row covers, where it is known to be one.

    vLLM and FlashInfer launch their norms, rotary embeddings, cache writes and activations so.
    """
    if _BLOCK_PER_TOKEN.search(kernel.name) is None or grid[1] * grid[2] != 1:
        return None
    return grid[0]
