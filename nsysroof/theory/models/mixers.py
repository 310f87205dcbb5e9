"""Which operators a layer's token mixer is made of, whatever kind it is."""

from __future__ import annotations

from nsysroof.theory.cost import Operator
from nsysroof.theory.models.latent import latent_operators
from nsysroof.theory.models.layers import Attention, LatentAttention, Mixer
from nsysroof.theory.models.recurrent import (
    delta_operators,
    lightning_operators,
    mamba2_operators,
)
from nsysroof.theory.models.softmax import attention_operators
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.models.states import DeltaNet, Lightning, Mamba2


def mixer_operators(stage: Stage, mixer: Mixer) -> list[Operator]:
    """Return the operators of a layer's token mixer, from its first projection to its last."""
    match mixer:
        case Attention():
            return attention_operators(stage, mixer)
        case LatentAttention():
            return latent_operators(stage, mixer)
        case Mamba2():
            return mamba2_operators(stage, mixer)
        case DeltaNet():
            return delta_operators(stage, mixer)
        case Lightning():
            return lightning_operators(stage, mixer)


def mixer_prefix(mixer: Mixer) -> str:
    """Return the first part of the mixer's roles.

    >>> mixer_prefix(Mamba2(heads=1, head_dim=1, groups=1, state=1, conv=4))
    'ssm'
    """
    return "attn" if isinstance(mixer, Attention | LatentAttention) else "ssm"
