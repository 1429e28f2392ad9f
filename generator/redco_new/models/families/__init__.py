"""The model families that redco writes itself."""

from redco_new.models.families import (
    bart,
    bert,
    experts,
    gemma,
    gpt2,
    gpt_j,
    llama,
    mistral,
    opt,
    phi3,
    qwen,
    t5,
    vit,
)
from redco_new.models.family import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        gpt_j.FAMILY,
        gpt2.FAMILY,
        opt.FAMILY,
        llama.FAMILY,
        mistral.FAMILY,
        qwen.QWEN2,
        qwen.QWEN3,
        phi3.FAMILY,
        gemma.GEMMA_2,
        gemma.GEMMA_3,
        experts.MIXTRAL,
        experts.QWEN3_MOE,
        t5.FAMILY,
        bart.FAMILY,
        bert.FAMILY,
        vit.FAMILY,
    )
}
