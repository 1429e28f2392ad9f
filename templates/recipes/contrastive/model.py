"""CLIP (Radford et al. 2021): images and captions as unit vectors of one space.

B batch, S places: patches of an image, or bytes of a caption, D features of a tower, E features of
the space, L blocks; of an image, H height, W width, C channels. A name carries its shape: x_BSD.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

BYTES = 256
COLORS = 3  # red, green, blue
SCALE = 1 / 0.07  # that similarities are multiplied by at first, and 100 at most, as in the paper


@dataclass(frozen=True)
class CLIPConfig:
    """The sizes of a CLIP, of both of its towers."""

    image_size: int = 64  # pixels: height and width of an image
    patch_size: int = 8  # pixels: height and width of a patch; divides image_size
    caption_length: int = 64  # bytes of a caption, which is filled up to it
    width: int = 384  # D
    num_heads: int = 6  # divides width
    num_layers: int = 6
    shared_dim: int = 256  # E

    def __post_init__(self) -> None:
        if self.image_size % self.patch_size:
            sizes = f"patch_size {self.patch_size} must divide image_size {self.image_size}."
            raise ValueError(sizes)
        if self.width % self.num_heads:
            raise ValueError(f"num_heads {self.num_heads} must divide width {self.width}.")


class CLIP(nnx.Module):
    """Two towers, one of images and one of captions, and the scale of their similarities."""

    def __init__(self, config: CLIPConfig, *, rngs: nnx.Rngs):
        patch = (config.patch_size, config.patch_size)
        patches = (config.image_size // config.patch_size) ** 2
        self.patches = nnx.Conv(
            COLORS, config.width, patch, strides=patch, padding="VALID", rngs=rngs
        )
        self.images = Tower(config, patches, rngs)
        self.bytes = nnx.Embed(BYTES, config.width, rngs=rngs)
        self.captions = Tower(config, config.caption_length, rngs)
        self.log_scale = nnx.Param(jnp.log(SCALE))

    def image(self, pixels_BHWC: jax.Array) -> jax.Array:
        """Return the unit vectors of images, whose pixels are from -1 to 1: x_BE."""
        x_BHWD = self.patches(pixels_BHWC)
        B, H, W, D = x_BHWD.shape
        return self.images(x_BHWD.reshape(B, H * W, D), jnp.ones((B, H * W), bool))

    def caption(self, bytes_BS: jax.Array) -> jax.Array:
        """Return the unit vectors of captions, whose bytes end before the first 0: x_BE."""
        return self.captions(self.bytes(bytes_BS), bytes_BS > 0)

    def scale(self) -> jax.Array:
        """Return what similarities are multiplied by."""
        return jnp.minimum(jnp.exp(self.log_scale[...]), 100.0)


class Tower(nnx.Module):
    """A transformer, and the mean of its places as a unit vector."""

    def __init__(self, config: CLIPConfig, places: int, rngs: nnx.Rngs):
        self.positions = nnx.Embed(places, config.width, rngs=rngs)
        create = nnx.vmap(lambda rngs: Block(config, rngs))  # one Block, its parameters L-stacked
        self.blocks = nnx.split_rngs(splits=config.num_layers)(create)(rngs)
        self.ln = nnx.LayerNorm(config.width, rngs=rngs)
        self.project = nnx.Linear(config.width, config.shared_dim, use_bias=False, rngs=rngs)

    def __call__(self, x_BSD: jax.Array, mask_BS: jax.Array) -> jax.Array:
        """Return x_BE; mask_BS is true for the places that count."""
        x_BSD = x_BSD + self.positions.embedding[...][None, :, :]

        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry, graph_updates=False)
        def run(block, x_BSD):
            return block(x_BSD, mask_BS)

        x_BSD = run(self.blocks, x_BSD)
        weights_BS1 = mask_BS[:, :, None] / jnp.maximum(mask_BS.sum(axis=1), 1)[:, None, None]
        x_BE = self.project(jnp.sum(self.ln(x_BSD) * weights_BS1, axis=1))
        return x_BE / jnp.linalg.norm(x_BE, axis=-1, keepdims=True)


class Block(nnx.Module):
    """Attention and an MLP, each added to what it is computed from."""

    def __init__(self, config: CLIPConfig, rngs: nnx.Rngs):
        D = config.width
        self.ln_1, self.ln_2 = nnx.LayerNorm(D, rngs=rngs), nnx.LayerNorm(D, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(config.num_heads, D, decode=False, rngs=rngs)
        self.up = nnx.Linear(D, 4 * D, rngs=rngs)
        self.down = nnx.Linear(4 * D, D, rngs=rngs)

    def __call__(self, x_BSD: jax.Array, mask_BS: jax.Array) -> jax.Array:
        """Return x_BSD; places that mask_BS leaves out are not attended to."""
        x_BSD = x_BSD + self.attention(self.ln_1(x_BSD), mask=mask_BS[:, None, None, :])
        return x_BSD + self.down(nnx.gelu(self.up(self.ln_2(x_BSD))))
