"""Examples of jax-ml/bonsai's models: NAME() is small enough to train, NAME_full() of a published size.

Where a model asks for what is no array of a batch (a cache that is a module, streams of random numbers, a
key), a class here calls it: its line in the table says so.
"""

import dataclasses
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def modeling(name):
    return import_module(f"bonsai.models.{name}.modeling")


def image(side, key="x"):
    return {key: np.zeros((1, side, side, 3), np.float32)}


def ids(length, *names):
    return {name: np.zeros((1, length), np.int32) for name in names}


def convnext():
    config = modeling("convnext").ModelConfig((1, 1, 1, 1), (16, 32, 64, 64), 0.0, 8)
    return {"cfg": config}, image(32)


def convnext_full():
    return {"cfg": modeling("convnext").ModelConfig.convnext_large_224()}, image(224)


class ConvNeXt(nnx.Module):
    def __init__(self, cfg, *, rngs):
        self.net = modeling("convnext").ConvNeXt(cfg, rngs=rngs)

    def __call__(self, x):
        return self.net(x, rngs=None, train=False)


def densenet121():
    return {"cfg": modeling("densenet121").ModelConfig(8, [1, 1], 16)}, image(32, "x")


def densenet121_full():
    return {"cfg": modeling("densenet121").ModelConfig.densenet_121()}, image(224, "x")


def dinov3():
    config = modeling("dinov3").ModelConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        image_size=32,
    )
    return {"config": config}, {"pixel_values": np.zeros((1, 3, 32, 32), np.float32)}


def dinov3_full():
    config = modeling("dinov3").ModelConfig(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16
    )
    return {"config": config}, {"pixel_values": np.zeros((1, 3, 224, 224), np.float32)}


def efficientnet():
    config = dataclasses.replace(modeling("efficientnet").ModelConfig.b0(8), depth_coefficient=0.2)
    return {"cfg": config}, image(32)


def efficientnet_full():
    return {"cfg": modeling("efficientnet").ModelConfig.b7()}, image(600)


class EfficientNet(nnx.Module):
    """Its dropout has no stream of random numbers: it trains without."""

    def __init__(self, cfg, *, rngs):
        self.net = modeling("efficientnet").EfficientNet(cfg, rngs=rngs)

    def __call__(self, x):
        return self.net(x, training=False)


class Gemma3(nnx.Module):
    """Its cache is a list of modules, which a call changes."""

    def __init__(self, cfg, *, rngs):
        self.net, self.cfg = modeling("gemma3").Gemma3Model(cfg, rngs=rngs), cfg

    def __call__(self, input_ids, segment_ids, token_type_ids):
        rows, length = input_ids.shape
        cache = modeling("gemma3").init_cache(self.cfg, rows, length, 0, jnp.float32)
        types = token_type_ids
        return self.net(input_ids, None, cache=cache, segment_ids=segment_ids, token_type_ids=types)


def gemma3(length=32, **sizes):
    config = modeling("gemma3").ModelConfig.gemma3_4b_it(norm_dtype=jnp.float32)
    layers = {"layer_types": config.text_config.layer_types[:1], "num_hidden_layers": 1}
    text = dict(hidden_size=64, intermediate_size=128, head_dim=16, vocab_size=256) | layers
    text = dataclasses.replace(config.text_config, **text) if not sizes else config.text_config
    eye = dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_hidden_layers=1)
    eye = dataclasses.replace(config.vision_config, **eye) if not sizes else config.vision_config
    config = dataclasses.replace(config, text_config=text, vision_config=eye)
    call = ids(length, "input_ids", "token_type_ids")
    return {"cfg": config}, call | {"segment_ids": np.ones((1, length), np.int32)}


def gemma3_full():
    return gemma3(128, full=True)


class LLaDA(nnx.Module):
    """It takes a key, and gives it back."""

    def __init__(self, cfg, *, rngs):
        self.net = modeling("llada").LLaDAModel(cfg, rngs=rngs)

    def __call__(self, input_ids, attention_mask):
        return self.net(input_ids, attention_mask, jax.random.key(0))[0]


def llada_full(length=128, **sizes):
    config = modeling("llada").ModelConfig.llada_8b_it(False, False, jnp.float32)
    call = ids(length, "input_ids") | {"attention_mask": np.ones((1, length), np.int32)}
    return {"cfg": dataclasses.replace(config, **sizes)}, call


def llada():
    small = dict(d_model=64, n_heads=4, n_kv_heads=4, n_layers=1, vocab_size=256)
    return llada_full(32, embedding_size=256, mlp_hidden_size=128, **small)


def mamba2_full(length=512, **sizes):
    config = modeling("mamba2").ModelConfig(**sizes)
    return {"cfg": config}, ids(length, "input_ids")


def mamba2():
    small = dict(vocab_size=256, hidden_size=64, state_size=16, head_dim=16, chunk_size=16)
    return mamba2_full(32, num_hidden_layers=1, **small)


class Qwen3(nnx.Module):
    """Its cache is a list of modules, which a call changes."""

    def __init__(self, cfg, *, rngs):
        self.net, self.cfg = modeling("qwen3").Qwen3(cfg, rngs=rngs), cfg

    def __call__(self, tokens, segment_ids):
        cache = modeling("qwen3").init_cache(self.cfg, *tokens.shape, 0, jnp.float32)
        return self.net(tokens, cache=cache, segment_ids=segment_ids)


def qwen3_full(length=128, **sizes):
    config = dataclasses.replace(modeling("qwen3").ModelConfig.qwen3_8b(), **sizes)
    return {"cfg": config}, ids(length, "tokens") | {"segment_ids": np.ones((1, length), np.int32)}


def qwen3():
    small = dict(num_layers=1, vocab_size=256, emb_dim=64, mlp_dim=128, num_heads=4, head_dim=16)
    return qwen3_full(32, num_kv_heads=2, **small)


class Qwen3VL(nnx.Module):
    """Its cache is a list of modules, which a call changes."""

    def __init__(self, config, *, rngs):
        self.net = modeling("qwen3_vl").Qwen3VLForConditionalGeneration(config, rngs=rngs)
        self.config = config

    def __call__(self, input_ids):
        rows, length = input_ids.shape
        cache = modeling("qwen3_vl").init_cache(self.config, rows, length, 0, jnp.float32)
        return self.net(input_ids, cache=cache)


def qwen3_vl_full():
    return {"config": modeling("qwen3_vl").ModelConfig.qwen3vl_4b()}, ids(128, "input_ids")


def qwen3_vl():
    config = modeling("qwen3_vl").ModelConfig.qwen3vl_2b()
    small = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=1, vocab_size=256)
    text = dataclasses.replace(config.text_config, **small)
    return {"config": dataclasses.replace(config, text_config=text)}, ids(32, "input_ids")


def resnet():
    return {"cfg": modeling("resnet").ModelConfig([1, 1, 1, 1], 8)}, image(32)


def resnet_full():
    return {"cfg": modeling("resnet").ModelConfig.resnet152()}, image(224)


def umt5_full(length=128, **sizes):
    names = ("input_ids", "decoder_input_ids")
    return {"config": modeling("umt5").ModelConfig(**sizes)}, ids(length, *names)


def umt5():
    small = dict(vocab_size=256, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4)
    return umt5_full(32, **small)


def unet():
    return {"cfg": modeling("unet").ModelConfig(3, 2, (8, 16, 32, 64, 128))}, image(32)


def unet_full():
    return {"cfg": modeling("unet").ModelConfig(3, 2)}, image(256)


def vae():
    return {"cfg": modeling("vae").ModelConfig((32, 32, 32, 32), 4, 32)}, image(32)


def vae_full():
    return {"cfg": modeling("vae").ModelConfig.stable_diffusion_v1_5()}, image(256)


def vgg19():
    config = modeling("vgg19").ModelConfig(8, [1] * 5, [8, 8, 16, 16, 32, 64])
    return {"cfg": config}, image(32)


def vgg19_full():
    return {"cfg": modeling("vgg19").ModelConfig.vgg_19()}, image(224)


class ViT(nnx.Module):
    """It takes streams of random numbers."""

    def __init__(self, cfg, *, rngs):
        self.net = modeling("vit").ViTClassificationModel(cfg, rngs=rngs)

    def __call__(self, x):
        return self.net(x, rngs=None)


def vit():
    config = modeling("vit").ModelConfig.vit_p16_224()
    small = dict(hidden_dim=64, num_heads=4, mlp_dim=128, num_layers=1, image_size=(32, 32))
    return {"cfg": dataclasses.replace(config, num_labels=8, **small)}, image(32)


def vit_full():
    return {"cfg": modeling("vit").ModelConfig.vit_p16_224()}, image(224)


def vjepa2():
    config = modeling("vjepa2").ModelConfig.standard_test()
    video = (1, config.frames_per_clip, config.crop_size, config.crop_size, 3)
    return {"config": config}, {"pixel_values_videos": np.zeros(video, np.float32)}


def vjepa2_full():
    config = modeling("vjepa2").ModelConfig.vitl_fpc16_256()
    return {"config": config}, {"pixel_values_videos": np.zeros((1, 16, 256, 256, 3), np.float32)}


class Whisper(nnx.Module):
    """Its call is not implemented: its encoder and decoder are."""

    def __init__(self, config, *, rngs):
        self.net = modeling("whisper").Whisper(config, rngs=rngs)

    def __call__(self, input_features, input_ids):
        hidden = self.net.encoder(input_features)
        hidden = self.net.decoder(input_ids, None, hidden, None, decode=False)
        return hidden @ self.net.decoder.embed_tokens.embedding[...].T


def whisper_full(**sizes):
    config = dataclasses.replace(modeling("whisper").ModelConfig.whisper_tiny(), **sizes)
    sound = np.zeros((1, 2 * config.max_source_positions, config.num_mel_bins), np.float32)
    return {"config": config}, {"input_features": sound} | ids(64, "input_ids")


def whisper():
    small = dict(d_model=64, encoder_layers=1, decoder_layers=1, vocab_size=256)
    heads = dict(encoder_attention_heads=4, decoder_attention_heads=4)
    widths = dict(encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=32)
    return whisper_full(**small, **heads, **widths)
