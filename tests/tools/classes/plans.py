"""How an expert splits each class by hand: Megatron's plan, as it is written for its parameters.

A plan: the end of a parameter's path -> the dim that `model` splits; * stands for one part of a path, and what
no line names is whole. Kernels of Flax are (in, out): `second` lists columns, `first` rows. The parts of a
fused kernel are apart here, as Megatron stores them: a line that names the kernel means each of them.
"""

from compiled.hand import dims

# Flax's own attention: (D, N, H) for q, k and v, (N, H, D) for the output.
ATTENTION = dims(
    second="query/kernel key/kernel value/kernel",
    first="query/bias key/bias value/bias out/kernel",
)
# Two convolutions with a norm between them: output channels, then input channels.
RESIDUAL = dims(
    first="conv1/bias norm2/scale norm2/bias",
    third="conv2/kernel",
    fourth="conv1/kernel",
)

HAND = {
    "gpt2": dims(  # its kernels are (out, in)
        first="wte/embedding c_attn/kernel c_attn/bias c_fc/kernel c_fc/bias",
        second="attn/c_proj/kernel mlp/c_proj/kernel",
    ),
    "bart": dims(
        first="shared/embedding out_proj/kernel fc2/kernel fc1/bias q_proj/bias k_proj/bias v_proj/bias",
        second="q_proj/kernel k_proj/kernel v_proj/kernel fc1/kernel final_logits_bias",
    ),
    "bert": dims(
        first="word_embeddings/embedding output/dense/kernel query/bias key/bias value/bias "
        "intermediate/dense/bias",
        second="query/kernel key/kernel value/kernel intermediate/dense/kernel",
    ),
    "llama": dims(
        first="embed_tokens/embedding o_proj/kernel down_proj/kernel",
        second="q_proj/kernel k_proj/kernel v_proj/kernel gate_proj/kernel up_proj/kernel "
        "lm_head/kernel",
    ),
    "vit": dims(
        first="output/dense/kernel query/bias key/bias value/bias intermediate/dense/bias",
        second="query/kernel key/kernel value/kernel intermediate/dense/kernel",
    ),
    "unet": dims(
        first="to_out_0/kernel net_2/kernel net_0/proj/bias time_emb_proj/bias conv1/bias norm2/scale "
        "norm2/bias",
        second="to_q/kernel to_k/kernel to_v/kernel net_0/proj/kernel time_emb_proj/kernel",
        third="conv2/kernel",
        fourth="conv1/kernel",
    ),
    "vae": RESIDUAL,
    "qwen3": dims(
        first="input_embedding o_proj/w down_proj/kernel",
        second="q_proj/w k_proj/w v_proj/w gate_proj/kernel up_proj/kernel lm_head/w",
    ),
    "qwen3_moe": dims(
        first="input_embedding o_proj/w",
        second="q_proj/w k_proj/w v_proj/w lm_head/w mlp/down_proj",
        third="mlp/gate_proj mlp/up_proj",
    ),
    "gemma": dims(
        first="input_embedding q_einsum/w attn_vec_einsum/w down_proj/kernel",
        second="gate_proj/kernel up_proj/kernel",
    ),
    "griffin": dims(
        first="embedder/input_embedding linear_x/bias linear_y/bias linear_out/kernel conv_1d/b input_gate/w "
        "a_gate/w input_gate/b a_gate/b proj_final/kernel ffw_down/kernel a_param",
        second="linear_x/kernel linear_y/kernel conv_1d/w proj_q/kernel",
        third="ffw_up/w",
        fourth="ffw_up/b",
    ),
    "dit": dims(
        first="to_q/bias to_k/bias to_v/bias to_out_0/kernel mlp/layers_0/bias mlp/layers_2/kernel",
        second="to_q/kernel to_k/kernel to_v/kernel mlp/layers_0/kernel",
    ),
    "unet_simple": dims(
        first="to_out_0/kernel temb_projection/bias conv1/conv/bias norm2/scale norm2/bias",
        second="to_q/kernel to_k/kernel to_v/kernel temb_projection/kernel",
        third="conv2/conv/kernel",
        fourth="conv1/conv/kernel",
    ),
    "dit_nnx": ATTENTION
    | dims(
        first="blocks/*/mlp/layers/0/bias blocks/*/mlp/layers/2/kernel",
        second="blocks/*/mlp/layers/0/kernel",
    ),
    "mamba2": dims(
        first="embedder/embedding out_proj/kernel conv/bias A_log D dt_bias mixer/norm/weight",
        second="in_proj/kernel",
        third="conv/kernel",
    ),
    "nano": dims(
        first="Embed_0/embedding net/Dense_0/bias MultiHeadAttention_0/Dense_0/bias "
        "MultiHeadAttention_0/Dense_1/kernel MoELayer_0/*/Dense_0/bias MoELayer_0/*/Dense_1/kernel",
        second="net/Dense_0/kernel MultiHeadAttention_0/Dense_0/kernel MoELayer_0/*/Dense_0/kernel",
    ),
    "dantinox": dims(
        first="embed/embedding o_proj/kernel up_q/bias up_k/bias up_v/bias q_pe/bias "
        "experts/*/down_proj/kernel experts/*/up_proj/bias",
        second="up_q/kernel up_k/kernel up_v/kernel q_pe/kernel experts/*/up_proj/kernel",
    ),
    "s5": dims(
        first="Embed_0/embedding SequenceModel_0/Dense_0/bias Lambda_re Lambda_im log_dt",
        second="SequenceModel_0/Dense_0/kernel B_comps",
        third="C_comps",
    ),
    "critic": dims(  # the first dim is that of the critics
        second="SimbaResidualBlock_*/Dense_0/bias SimbaResidualBlock_*/Dense_1/kernel",
        third="SimbaResidualBlock_*/Dense_0/kernel",
    ),
    "resnet": dims(
        first="*/BatchNorm_0/scale */BatchNorm_0/bias",
        third="*/Conv_1/kernel",
        fourth="*/Conv_0/kernel",
    ),
    "vit_fsdp": ATTENTION
    | dims(
        first="layers/*/mlp/layers/0/bias layers/*/mlp/layers/3/kernel",
        second="layers/*/mlp/layers/0/kernel",
    ),
}
