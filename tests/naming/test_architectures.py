"""Every parameter of about sixty architectures: name, layer, module, stack, kind, and its matrices.

The table is written by hand. A line is `[@layers] name kind [matrices*rowsxcols] [layout]`: names stand under the
family's stack, or at the root after a `/`; `{a,b}` stands for either; without `@` a line holds for every layer. A line
with no layout means (out, in) where the kind is a linear map, and none elsewhere.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grpodyn.naming.inventory import take_inventory

ATTENTION = "self_attn.{q,k,v,o}_proj.weight linear"
ATTENTION_BIAS = "self_attn.{q,k,v}_proj.bias bias"
QK_NORM = "self_attn.{q,k}_norm.weight norm"
MLP = "mlp.{gate,up,down}_proj.weight linear"
NORMS = "{input,post_attention}_layernorm.weight norm"
ENDS = "/model.embed_tokens.weight embedding 128x64; /model.norm.weight norm 64x1"
HEAD = "/lm_head.weight head 128x64"
LLAMA = f"{ATTENTION}; {MLP}; {NORMS}; {ENDS}"
GEMMA_NORMS = "{pre,post}_feedforward_layernorm.weight norm"
PER_LAYER_INPUT = """
    per_layer_input_gate.weight linear 16x64; per_layer_projection.weight linear 64x16
    post_per_layer_input_norm.weight norm; /model.embed_tokens_per_layer.weight embedding 128x64
    /model.per_layer_model_projection.weight linear 64x64; /model.per_layer_projection_norm.weight norm 16x1
"""
# Fused experts, (E, 2I, H) and (E, H, I).
WIDE = "mlp.experts.gate_up_proj expert 4*192x64; mlp.experts.down_proj expert 4*64x96"
NARROW = "mlp.experts.gate_up_proj expert 4*64x64; mlp.experts.down_proj expert 4*64x32"
SHARED_EXPERT = "mlp.shared_expert.{gate,up,down}_proj.weight linear; mlp.shared_expert_gate.weight router 1x64"
GATE = "mlp.gate.weight router 4x64"
# One dense layer, then routed and shared experts.
DEEPSEEK = f"""
    @0 {MLP}; @123 {GATE}; @123 mlp.experts.gate_up_proj expert 4*64x64; @123 mlp.experts.down_proj expert 4*64x32
    @123 mlp.shared_experts.{{gate,up,down}}_proj.weight linear; {NORMS}; {ENDS}; {HEAD}
"""
LATENT_ATTENTION = """
    self_attn.q_{a,b}_proj.weight linear; self_attn.kv_a_proj_with_mqa.weight linear 24x64
    self_attn.kv_b_proj.weight linear; self_attn.o_proj.weight linear 64x64; self_attn.{q,kv}_a_layernorm.weight norm
"""
GATED_DELTA = """
    linear_attn.A_log ssm 4x1; linear_attn.dt_bias ssm 4x1; linear_attn.conv1d.weight conv 64x4
    linear_attn.norm.weight norm 8x1; linear_attn.out_proj.weight linear 64x32
"""
DELTA_SIZES = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
MAMBA1 = """
    A_log ssm 96x8; D ssm 96x1; conv1d.weight conv 96x4; conv1d.bias bias 96x1; in_proj.weight linear 192x64
    x_proj.weight linear 20x96; dt_proj.weight linear 96x4; dt_proj.bias bias 96x1; out_proj.weight linear 64x96
"""
MAMBA2 = """
    A_log ssm 8x1; D ssm 8x1; dt_bias ssm 8x1; conv1d.weight conv 144x4; conv1d.bias bias 144x1
    in_proj.weight linear 280x64; out_proj.weight linear 64x128
"""
MAMBA2_SIZES = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8}
CONV = "conv.{in,out}_proj.weight linear; conv.conv.weight conv 64x3"

EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16}
DEEPSEEK_SIZES = {**EXPERTS, "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1}
PER_LAYER_SIZES = {"vocab_size_per_layer_input": 128, "hidden_size_per_layer_input": 16}
GPT2_SIZES = {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 32}
VISION = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}


def lines(table: str) -> list[str]:
    return [line.strip() for line in re.split(r"[;\n]", table) if line.strip()]


def prefixed(prefix: str, table: str, layers: str = "") -> str:
    """Put a module's name (and its layers) before every line of a table."""
    return "; ".join(f"{layers} {prefix}{line}" for line in lines(table))


@dataclass(frozen=True)
class Family:
    """A model type, the config that makes it tiny, and what its parameters are."""

    name: str
    table: str
    sizes: dict[str, Any] = field(default_factory=dict)
    stack: str = "model.layers"
    layers: int = 4
    model_type: str = ""


FAMILIES = [
    # Dense decoders in the shape of Llama.
    *(Family(name, f"{LLAMA}; {HEAD}") for name in ("llama", "mistral", "ministral3", "helium")),
    *(Family(name, f"{LLAMA}; {HEAD}", {"tie_word_embeddings": False}) for name in ("granite", "smollm3", "ernie4_5")),
    Family("gemma", LLAMA),
    Family("smollm3 (tied)", LLAMA, {"tie_word_embeddings": True}, model_type="smollm3"),
    Family("qwen2", f"{LLAMA}; {ATTENTION_BIAS}; {HEAD}"),
    Family("qwen2 (tied)", f"{LLAMA}; {ATTENTION_BIAS}", {"tie_word_embeddings": True}, model_type="qwen2"),
    Family("seed_oss", f"{LLAMA}; {ATTENTION_BIAS}; {HEAD}"),
    Family("qwen3", f"{LLAMA}; {QK_NORM} 16x1; {HEAD}"),
    Family("arcee", f"{ATTENTION}; mlp.{{up,down}}_proj.weight linear; {NORMS}; {ENDS}; {HEAD}"),
    Family("cohere2", f"{ATTENTION}; {MLP}; input_layernorm.weight norm; {ENDS}"),
    Family(
        "nemotron",
        f"""{ATTENTION}; mlp.{{up,down}}_proj.weight linear; {NORMS}; {ENDS}; {HEAD}
            {{input,post_attention}}_layernorm.bias bias; /model.norm.bias bias""",
    ),
    Family("stablelm", f"{LLAMA}; {{input,post_attention}}_layernorm.bias bias; /model.norm.bias bias; {HEAD}"),
    Family("bitnet", f"{LLAMA}; self_attn.attn_sub_norm.weight norm; mlp.ffn_sub_norm.weight norm 96x1; {HEAD}"),
    Family(
        "apertus",
        f"""{ATTENTION}; {QK_NORM}; mlp.{{up,down}}_proj.weight linear; mlp.act_fn.alpha_{{p,n}} other 1x1
            {{attention,feedforward}}_layernorm.weight norm; {ENDS}; {HEAD}""",
    ),
    Family("diffllama", f"{LLAMA}; self_attn.lambda_{{q1,k1,q2,k2}} other 16x1; {HEAD}"),
    Family(
        "doge",
        f"""{LLAMA}; {QK_NORM}; {{input,post_attention}}_residual other 64x1; self_attn.A other 2x1
            self_attn.dt_proj.weight linear 2x32; {HEAD}""",
    ),
    # Norms elsewhere.
    *(
        Family(
            name,
            f"""{ATTENTION}; {MLP}; self_attn.q_norm.weight norm 64x1; self_attn.k_norm.weight norm 32x1
                post_{{attention,feedforward}}_layernorm.weight norm; {ENDS}; {HEAD}""",
        )
        for name in ("olmo2", "olmo3")
    ),
    Family(
        "exaone4",
        f"{ATTENTION}; {MLP}; {QK_NORM}; post_{{attention,feedforward}}_layernorm.weight norm; {ENDS}; {HEAD}",
    ),
    Family("gemma2", f"{LLAMA}; {GEMMA_NORMS}"),
    Family("gemma3_text", f"{LLAMA}; {GEMMA_NORMS}; {QK_NORM}"),
    Family("vaultgemma", f"{ATTENTION}; {MLP}; {{input,pre_feedforward}}_layernorm.weight norm; {ENDS}"),
    # Layers of different shapes: the last one attends globally, with other heads.
    Family(
        "gemma4_text",
        f"""{MLP}; {NORMS}; {GEMMA_NORMS}; {PER_LAYER_INPUT}; {ENDS}
            @012 self_attn.q_proj.weight linear 64x64; @012 self_attn.{{k,v}}_proj.weight linear 32x64
            @012 self_attn.o_proj.weight linear 64x64; @012 {QK_NORM} 16x1
            @3 self_attn.q_proj.weight linear 128x64; @3 self_attn.{{k,v}}_proj.weight linear 64x64
            @3 self_attn.o_proj.weight linear 64x128; @3 {QK_NORM} 32x1""",
        {**PER_LAYER_SIZES, "global_head_dim": 32},
    ),
    Family(
        "gemma4_text (MoE)",
        f"""{LLAMA}; {GEMMA_NORMS}; {QK_NORM}; {PER_LAYER_INPUT}
            router.proj.weight router 4x64; router.scale router 64x1; router.per_expert_scale router 4x1
            experts.gate_up_proj expert 4*64x64; experts.down_proj expert 4*64x32
            post_feedforward_layernorm_{{1,2}}.weight norm; pre_feedforward_layernorm_2.weight norm""",
        {**PER_LAYER_SIZES, **EXPERTS, "global_head_dim": 16, "enable_moe_block": True, "top_k_experts": 2},
        model_type="gemma4_text",
    ),
    # Lists of plain projections beside the layers are no layers.
    Family(
        "gemma3n_text",
        f"""{LLAMA}; {GEMMA_NORMS}; {QK_NORM}; {PER_LAYER_INPUT}
            altup.correct_output_scale other 64x1; altup.{{correction,prediction}}_coefs.weight linear
            altup.modality_router.weight linear 4x64; altup.router_norm.weight norm
            laurel.linear_{{left,right}}.weight linear; laurel.post_laurel_norm.weight norm
            /model.altup_{{projections,unembed_projections}}.{{0,1,2}}.weight linear 64x64""",
        {
            **PER_LAYER_SIZES,
            "num_kv_shared_layers": 0,
            "laurel_rank": 8,
            "layer_types": ["full_attention"] * 4,
            "activation_sparsity_pattern": [0.0] * 4,
        },
    ),
    # Fused projections.
    Family(
        "phi3",
        f"self_attn.{{qkv,o}}_proj.weight linear; mlp.{{gate_up,down}}_proj.weight linear; {NORMS}; {ENDS}; {HEAD}",
    ),
    Family("glm", f"{ATTENTION}; {ATTENTION_BIAS}; mlp.{{gate_up,down}}_proj.weight linear; {NORMS}; {ENDS}; {HEAD}"),
    Family(
        "glm4",
        f"""{ATTENTION}; {ATTENTION_BIAS}; mlp.{{gate_up,down}}_proj.weight linear; {NORMS}
            post_{{self_attn,mlp}}_layernorm.weight norm; {ENDS}; {HEAD}""",
    ),
    Family(
        "phi",
        f"""self_attn.{{q_proj,k_proj,v_proj,dense}}.weight linear; self_attn.{{q_proj,k_proj,v_proj,dense}}.bias bias
            mlp.fc{{1,2}}.weight linear; mlp.fc{{1,2}}.bias bias; input_layernorm.weight norm; input_layernorm.bias bias
            /model.embed_tokens.weight embedding; /model.final_layernorm.weight norm; /model.final_layernorm.bias bias
            {HEAD}; /lm_head.bias bias 128x1""",
    ),
    Family(
        "starcoder2",
        f"""{ATTENTION}; self_attn.{{q,k,v,o}}_proj.bias bias; mlp.c_{{fc,proj}}.weight linear
            mlp.c_{{fc,proj}}.bias bias; {NORMS}; {{input,post_attention}}_layernorm.bias bias; {ENDS}
            /model.norm.bias bias""",
    ),
    # The families of GPT.
    Family(
        "gpt2",
        """attn.c_attn.weight linear 64x192 in_out; attn.c_proj.weight linear 64x64 in_out
           mlp.c_fc.weight linear 64x256 in_out; mlp.c_proj.weight linear 256x64 in_out
           attn.c_{attn,proj}.bias bias; mlp.c_{fc,proj}.bias bias; ln_{1,2}.weight norm; ln_{1,2}.bias bias
           /transformer.wte.weight embedding 128x64; /transformer.wpe.weight embedding 32x64
           /transformer.ln_f.weight norm; /transformer.ln_f.bias bias""",
        GPT2_SIZES,
        "transformer.h",
    ),
    Family(
        "gpt_bigcode",
        """attn.c_attn.weight linear 96x64; attn.c_proj.weight linear 64x64; mlp.c_fc.weight linear 256x64
           mlp.c_proj.weight linear 64x256; attn.c_{attn,proj}.bias bias; mlp.c_{fc,proj}.bias bias
           ln_{1,2}.weight norm; ln_{1,2}.bias bias; /transformer.w{te,pe}.weight embedding
           /transformer.ln_f.weight norm; /transformer.ln_f.bias bias""",
        GPT2_SIZES,
        "transformer.h",
    ),
    Family(
        "gpt_neox",
        """attention.query_key_value.weight linear 192x64; attention.dense.weight linear 64x64
           attention.{query_key_value,dense}.bias bias; mlp.dense_{h_to_4h,4h_to_h}.weight linear
           mlp.dense_{h_to_4h,4h_to_h}.bias bias; {input,post_attention}_layernorm.weight norm
           {input,post_attention}_layernorm.bias bias; /gpt_neox.embed_in.weight embedding
           /gpt_neox.final_layer_norm.weight norm; /gpt_neox.final_layer_norm.bias bias; /lm_head.weight head""",
        stack="gpt_neox.layers",
    ),
    Family(
        "falcon",
        """self_attention.{query_key_value,dense}.weight linear; mlp.dense_{h_to_4h,4h_to_h}.weight linear
           input_layernorm.weight norm; input_layernorm.bias bias; /transformer.word_embeddings.weight embedding
           /transformer.ln_f.weight norm; /transformer.ln_f.bias bias""",
        {"head_dim": None},
        "transformer.h",
    ),
    Family(
        "bloom",
        """self_attention.{query_key_value,dense}.weight linear; self_attention.{query_key_value,dense}.bias bias
           mlp.dense_{h_to_4h,4h_to_h}.weight linear; mlp.dense_{h_to_4h,4h_to_h}.bias bias
           {input,post_attention}_layernorm.weight norm; {input,post_attention}_layernorm.bias bias
           /transformer.word_embeddings.weight embedding; /transformer.word_embeddings_layernorm.weight norm
           /transformer.word_embeddings_layernorm.bias bias
           /transformer.ln_f.weight norm; /transformer.ln_f.bias bias""",
        stack="transformer.h",
    ),
    Family(
        "opt",
        """self_attn.{q_proj,k_proj,v_proj,out_proj}.weight linear; self_attn.{q_proj,k_proj,v_proj,out_proj}.bias bias
           fc{1,2}.weight linear; fc{1,2}.bias bias; {self_attn,final}_layer_norm.weight norm
           {self_attn,final}_layer_norm.bias bias; /model.decoder.embed_{tokens,positions}.weight embedding
           /model.decoder.final_layer_norm.weight norm; /model.decoder.final_layer_norm.bias bias""",
        {"ffn_dim": 96, "word_embed_proj_dim": 64, "max_position_embeddings": 32},
        "model.decoder.layers",
    ),
    Family(
        "gptj",
        """attn.{q_proj,k_proj,v_proj,out_proj}.weight linear; mlp.fc_{in,out}.weight linear; mlp.fc_{in,out}.bias bias
           ln_1.weight norm; ln_1.bias bias; /transformer.wte.weight embedding; /transformer.ln_f.weight norm
           /transformer.ln_f.bias bias; /lm_head.weight head; /lm_head.bias bias""",
        {**GPT2_SIZES, "rotary_dim": 8},
        "transformer.h",
    ),
    Family(
        "mpt",
        """attn.Wqkv.weight linear 192x64; attn.out_proj.weight linear; ffn.{up,down}_proj.weight linear
           norm_{1,2}.weight norm; /transformer.wte.weight embedding; /transformer.norm_f.weight norm""",
        {"d_model": 64, "n_layers": 4, "n_heads": 4, "hidden_size": None, "num_hidden_layers": None},
        "transformer.blocks",
    ),
    # Mixtures of experts.
    *(Family(name, f"{ATTENTION}; {NORMS}; {GATE}; {WIDE}; {ENDS}; {HEAD}", EXPERTS) for name in ("mixtral",)),
    Family("qwen3_moe", f"{ATTENTION}; {QK_NORM} 16x1; {NORMS}; {GATE}; {NARROW}; {ENDS}; {HEAD}", EXPERTS),
    Family("olmoe", f"{ATTENTION}; {QK_NORM}; {NORMS}; {GATE}; {WIDE}; {ENDS}; {HEAD}", EXPERTS),
    Family("minimax_m2", f"{ATTENTION}; {QK_NORM}; {NORMS}; {GATE}; {WIDE}; {ENDS}; {HEAD}", EXPERTS),
    Family(
        "flex_olmo",
        f"{ATTENTION}; {QK_NORM}; post_{{attention,feedforward}}_layernorm.weight norm; {GATE}; {WIDE}; {ENDS}; {HEAD}",
        EXPERTS,
    ),
    Family(
        "qwen2_moe",
        f"{ATTENTION}; {ATTENTION_BIAS}; {NORMS}; {GATE}; {NARROW}; {SHARED_EXPERT}; {ENDS}; {HEAD}",
        {**EXPERTS, "shared_expert_intermediate_size": 32},
    ),
    Family("deepseek_v2", f"{LATENT_ATTENTION}; {DEEPSEEK}", {**DEEPSEEK_SIZES, **LATENT}),
    Family("deepseek_v3", f"{LATENT_ATTENTION}; {DEEPSEEK}", {**DEEPSEEK_SIZES, **LATENT}),
    Family("glm4_moe", f"{ATTENTION}; {DEEPSEEK}", DEEPSEEK_SIZES),
    Family("dots1", f"{ATTENTION}; {QK_NORM}; {DEEPSEEK}", {**DEEPSEEK_SIZES, "n_shared_experts": 1}),
    Family(
        "granitemoe",
        f"""{ATTENTION}; {NORMS}; block_sparse_moe.router.weight router 4x64; {ENDS}; {HEAD}
            block_sparse_moe.experts.gate_up_proj expert 4*192x64
            block_sparse_moe.experts.down_proj expert 4*64x96""",
        {**EXPERTS, "tie_word_embeddings": False},
    ),
    Family(
        "hunyuan_v1_moe",
        f"""{ATTENTION}; self_attn.{{query,key}}_layernorm.weight norm; {NORMS}; mlp.gate.wg.weight router 4x64
            mlp.experts.gate_up_proj expert 4*192x64; mlp.experts.down_proj expert 4*64x96
            mlp.shared_mlp.{{gate,up,down}}_proj.weight linear; {ENDS}; {HEAD}""",
        {**EXPERTS, "moe_topk": [2] * 4, "num_shared_expert": [1] * 4, "tie_word_embeddings": False},
    ),
    Family(
        "ernie4_5_moe",
        f"""{ATTENTION}; {NORMS}; @0 {MLP}; @123 {GATE}; {ENDS}
            @123 mlp.experts.gate_up_proj expert 4*64x64; @123 mlp.experts.down_proj expert 4*64x32
            @123 mlp.shared_experts.{{gate,up,down}}_proj.weight linear""",
        {**EXPERTS, "moe_num_experts": 4, "moe_k": 2, "tie_word_embeddings": True},
    ),
    Family(
        "afmoe",
        f"""{ATTENTION}; self_attn.gate_proj.weight linear 64x64; {QK_NORM}; {NORMS}
            {{pre,post}}_mlp_layernorm.weight norm; @0 {MLP}
            @123 mlp.router.gate.weight router 4x64; @123 mlp.experts.gate_up_proj expert 4*64x64
            @123 mlp.experts.down_proj expert 4*64x32; @123 mlp.shared_experts.{{gate,up,down}}_proj.weight linear
            {ENDS}; {HEAD}""",
        {**EXPERTS, "num_dense_layers": 1},
    ),
    # Experts stored (E, in, out); those of gpt-oss with gate and up columns in turn.
    Family(
        "gpt_oss",
        f"""{ATTENTION}; self_attn.{{q,k,v,o}}_proj.bias bias; self_attn.sinks sink 4x1; {NORMS}
            mlp.router.weight router 4x64; mlp.router.bias bias 4x1
            mlp.experts.gate_up_proj expert 4*64x192 in_out_interleaved; mlp.experts.gate_up_proj_bias bias 4*192x1
            mlp.experts.down_proj expert 4*96x64 in_out; mlp.experts.down_proj_bias bias 4*64x1; {ENDS}; {HEAD}""",
        EXPERTS,
    ),
    Family(
        "llama4_text",
        f"""{ATTENTION}; {NORMS}; @02 feed_forward.{{gate,up,down}}_proj.weight linear
            @13 feed_forward.router.weight router 4x64; @13 feed_forward.experts.gate_up_proj expert 4*64x192 in_out
            @13 feed_forward.experts.down_proj expert 4*96x64 in_out
            @13 feed_forward.shared_expert.{{gate,up,down}}_proj.weight linear; {ENDS}; {HEAD}""",
        {**EXPERTS, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 96},
    ),
    Family(
        "aria_text",
        f"""{ATTENTION}; {NORMS}; mlp.router.weight router 8x64; mlp.experts.gate_up_proj expert 8*64x192 in_out
            mlp.experts.down_proj expert 8*96x64 in_out; mlp.shared_experts.{{gate,up,down}}_proj.weight linear
            {ENDS}; {HEAD}""",
        EXPERTS,
    ),
    Family(
        "jetmoe",
        f"""{NORMS}; mlp.router.layer.weight router 8x64; mlp.input_linear.weight expert 8*192x64
            mlp.output_linear.weight expert 8*64x96; mlp.bias bias 64x1; self_attention.kv_proj.weight linear 64x64
            self_attention.experts.router.layer.weight router 8x64
            self_attention.experts.input_linear.weight expert 8*32x64
            self_attention.experts.output_linear.weight expert 8*64x32
            self_attention.experts.bias bias 64x1; {ENDS}""",
        {"tie_word_embeddings": True},
    ),
    # Matrices of experts under one another, in two dimensions.
    Family(
        "dbrx",
        f"""norm_attn_norm.attn.{{Wqkv,out_proj}}.weight linear; norm_attn_norm.norm_{{1,2}}.weight norm
            ffn.router.layer.weight router 4x64; ffn.experts.mlp.{{w1,v1}} expert 4*32x64
            ffn.experts.mlp.w2 expert 4*32x64 in_out; /transformer.wte.weight embedding
            /transformer.norm_f.weight norm; {HEAD}""",
        {
            "d_model": 64,
            "n_layers": 4,
            "n_heads": 4,
            "max_seq_len": 32,
            "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 64},
            "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0},
            **dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")),
        },
        "transformer.blocks",
    ),
    # State spaces, recurrences and convolutions.
    *(
        Family(
            name,
            f"""{prefixed("mixer.", MAMBA1)}; norm.weight norm; /backbone.embeddings.weight embedding
                /backbone.norm_f.weight norm""",
            {"state_size": 8, "tie_word_embeddings": True},
            "backbone.layers",
        )
        for name in ("mamba", "falcon_mamba")
    ),
    Family(
        "mamba2",
        f"""{prefixed("mixer.", MAMBA2)}; mixer.norm.weight norm 128x1; norm.weight norm
            /backbone.embeddings.weight embedding; /backbone.norm_f.weight norm; {HEAD}""",
        {"state_size": 8, "num_heads": 8, "n_groups": 1},
        "backbone.layers",
    ),
    Family(
        "bamba",
        f"""{prefixed("mamba.", MAMBA2, "@023")}; @023 mamba.norm.weight norm 128x1; @1 {ATTENTION}
            feed_forward.{{gate,up,down}}_proj.weight linear; {{input,pre_ff}}_layernorm.weight norm
            /model.embed_tokens.weight embedding; /model.final_layernorm.weight norm; {HEAD}""",
        {**MAMBA2_SIZES, "attn_layer_indices": [1]},
    ),
    Family(
        "falcon_h1",
        f"""{prefixed("mamba.", MAMBA2)}; {ATTENTION}; feed_forward.{{gate,up,down}}_proj.weight linear
            {{input,pre_ff}}_layernorm.weight norm; /model.embed_tokens.weight embedding
            /model.final_layernorm.weight norm; {HEAD}""",
        {**MAMBA2_SIZES, "mamba_d_ssm": 128},
    ),
    Family(
        "granitemoehybrid",
        f"""{prefixed("mamba.", MAMBA2, "@02")}; @02 mamba.norm.weight norm 128x1; @13 {ATTENTION}; {NORMS}
            block_sparse_moe.router.weight router 4x64; block_sparse_moe.experts.gate_up_proj expert 4*192x64
            block_sparse_moe.experts.down_proj expert 4*64x96; shared_mlp.{{input,output}}_linear.weight linear
            {ENDS}; {HEAD}""",
        {
            **EXPERTS,
            **MAMBA2_SIZES,
            "layer_types": ["mamba", "attention"] * 2,
            "shared_intermediate_size": 96,
            "tie_word_embeddings": False,
        },
    ),
    Family(
        "jamba",
        f"""@02 mamba.A_log ssm 128x16; @02 mamba.D ssm 128x1; @02 mamba.conv1d.weight conv 128x4
            @02 mamba.conv1d.bias bias; @02 mamba.{{in,x,dt,out}}_proj.weight linear; @02 mamba.dt_proj.bias bias
            @02 mamba.{{dt,b,c}}_layernorm.weight norm; @02 feed_forward.{{gate,up,down}}_proj.weight linear
            @13 {ATTENTION}; @13 feed_forward.router.weight router 4x64
            @13 feed_forward.experts.gate_up_proj expert 4*192x64; @13 feed_forward.experts.down_proj expert 4*64x96
            {{input,pre_ff}}_layernorm.weight norm; /model.embed_tokens.weight embedding
            /model.final_layernorm.weight norm; {HEAD}""",
        {**EXPERTS, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    ),
    Family(
        "nemotron_h",
        f"""{prefixed("mixer.", MAMBA2, "@0")}; @0 mixer.norm.weight norm 128x1; norm.weight norm
            @1 mixer.{{up,down}}_proj.weight linear; @2 mixer.{{q,k,v,o}}_proj.weight linear
            @3 mixer.gate.weight router 4x64; @3 mixer.experts.up_proj expert 4*32x64
            @3 mixer.experts.down_proj expert 4*64x32; @3 mixer.shared_experts.{{up,down}}_proj.weight linear
            /model.embeddings.weight embedding; /model.norm_f.weight norm; {HEAD}""",
        {
            **EXPERTS,
            "n_routed_experts": 4,
            "hybrid_override_pattern": "M-*E",
            "mamba_num_heads": 8,
            "mamba_head_dim": 16,
            "ssm_state_size": 8,
            "n_groups": 1,
            "moe_shared_expert_intermediate_size": 32,
        },
    ),
    Family(
        "qwen3_next",
        f"""{prefixed("", GATED_DELTA, "@012")}; @012 linear_attn.in_proj_{{qkvz,ba}}.weight linear; @3 {QK_NORM}
            @3 self_attn.q_proj.weight linear 128x64; @3 self_attn.{{k,v,o}}_proj.weight linear; {NORMS}; {GATE}
            {NARROW}; {SHARED_EXPERT}; {ENDS}; {HEAD}""",
        {**EXPERTS, **DELTA_SIZES, "shared_expert_intermediate_size": 32},
    ),
    Family(
        "qwen3_5_text",
        f"""{prefixed("", GATED_DELTA, "@012")}; @012 linear_attn.in_proj_{{qkv,z,b,a}}.weight linear; @3 {QK_NORM}
            @3 {ATTENTION}; {MLP}; {NORMS}; {ENDS}; {HEAD}""",
        DELTA_SIZES,
    ),
    Family(
        "olmo_hybrid",
        f"""@012 linear_attn.A_log ssm 4x1; @012 linear_attn.dt_bias ssm 4x1; @012 linear_attn.conv1d.weight conv
            @012 linear_attn.{{q,k,v,a,b,g,o}}_proj.weight linear; @012 linear_attn.o_norm.weight norm
            @012 input_layernorm.weight norm; post_attention_layernorm.weight norm
            @3 post_feedforward_layernorm.weight norm; @3 {ATTENTION}; @3 {QK_NORM}; {MLP}; {ENDS}; {HEAD}""",
    ),
    Family(
        "lfm2",
        f"""{prefixed("", CONV, "@02")}; @13 self_attn.{{q_proj,k_proj,v_proj,out_proj}}.weight linear
            @13 self_attn.{{q,k}}_layernorm.weight norm 16x1; feed_forward.w{{1,2,3}}.weight linear
            {{operator,ffn}}_norm.weight norm; /model.embed_tokens.weight embedding
            /model.embedding_norm.weight norm""",
        {"full_attn_idxs": [1, 3]},
    ),
    Family(
        "lfm2_moe",
        f"""{prefixed("", CONV, "@02")}; @13 self_attn.{{q_proj,k_proj,v_proj,out_proj}}.weight linear
            @13 self_attn.{{q,k}}_layernorm.weight norm 16x1; @0 feed_forward.w{{1,2,3}}.weight linear
            @123 feed_forward.gate.weight router 4x64; @123 feed_forward.experts.gate_up_proj expert 4*64x64
            @123 feed_forward.experts.down_proj expert 4*64x32; {{operator,ffn}}_norm.weight norm
            /model.embed_tokens.weight embedding; /model.embedding_norm.weight norm""",
        {**EXPERTS, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"] * 2},
    ),
    Family(
        "recurrent_gemma",
        """@013 temporal_block.linear_{x,y,out}.weight linear; @013 temporal_block.linear_{x,y,out}.bias bias
           @013 temporal_block.conv_1d.weight conv 64x4; @013 temporal_block.conv_1d.bias bias
           @013 temporal_block.rg_lru.recurrent_param ssm 64x1
           @013 temporal_block.rg_lru.{input,recurrent}_gate_weight ssm
           @013 temporal_block.rg_lru.{input,recurrent}_gate_bias bias 4*16x1
           @2 temporal_block.{q,k,v,o}_proj.weight linear; @2 temporal_block.o_proj.bias bias
           mlp_block.{gate,up,down}_proj.weight linear; mlp_block.{gate,up,down}_proj.bias bias
           {temporal,channel}_pre_norm.weight norm; /model.embed_tokens.weight embedding
           /model.final_norm.weight norm""",
    ),
    Family(
        "rwkv",
        """@0 pre_ln.weight norm; @0 pre_ln.bias bias; ln{1,2}.weight norm; ln{1,2}.bias bias
           attention.time_{decay,first,mix_key,mix_value,mix_receptance} ssm; feed_forward.time_mix_{key,receptance} ssm
           attention.{key,value,receptance,output}.weight linear; feed_forward.{key,receptance,value}.weight linear
           /rwkv.embeddings.weight embedding; /rwkv.ln_out.weight norm; /rwkv.ln_out.bias bias; /head.weight head""",
        stack="rwkv.blocks",
    ),
    # A shared block is where it first stands, once; each place keeps its own `linear` and adapters.
    Family(
        "zamba2",
        f"""{prefixed("mamba.", MAMBA2, "@02")}; @02 mamba.norm.weight norm; @02 input_layernorm.weight norm
            {prefixed("mamba_decoder.mamba.", MAMBA2, "@13")}; @13 mamba_decoder.mamba.norm.weight norm
            @13 mamba_decoder.input_layernorm.weight norm; @13 linear.weight linear 64x64
            @1 shared_transformer.self_attn.{{q,k,v,o}}_proj.weight linear
            @1 shared_transformer.feed_forward.{{gate_up,down}}_proj.weight linear
            @1 shared_transformer.feed_forward.gate_up_proj_adapter_list.{{0,1}}.0.weight linear 128x64
            @1 shared_transformer.feed_forward.gate_up_proj_adapter_list.{{0,1}}.1.weight linear 192x128
            @1 shared_transformer.{{input,pre_ff}}_layernorm.weight norm
            /model.embed_tokens.weight embedding; /model.final_layernorm.weight norm""",
        {
            "layers_block_type": ["mamba", "hybrid"] * 2,
            "num_mem_blocks": 1,
            "mamba_d_state": 8,
            "n_mamba_heads": 8,
            "mamba_headdim": 16,
            "mamba_ngroups": 1,
            "use_mamba_kernels": False,
            "tie_word_embeddings": True,
        },
    ),
    # A vision tower is a stack of its own.
    Family(
        "qwen2_5_vl",
        f"""{ATTENTION}; {ATTENTION_BIAS}; {MLP}; {NORMS}; /model.language_model.embed_tokens.weight embedding
            /model.language_model.norm.weight norm; {HEAD}; /model.visual.patch_embed.proj.weight conv
            /model.visual.blocks.{{0,1}}.norm{{1,2}}.weight norm
            /model.visual.blocks.{{0,1}}.attn.{{qkv,proj}}.weight linear
            /model.visual.blocks.{{0,1}}.attn.{{qkv,proj}}.bias bias
            /model.visual.blocks.{{0,1}}.mlp.{{gate,up,down}}_proj.weight linear
            /model.visual.blocks.{{0,1}}.mlp.{{gate,up,down}}_proj.bias bias; /model.visual.merger.ln_q.weight norm
            /model.visual.merger.mlp.{{0,2}}.weight linear; /model.visual.merger.mlp.{{0,2}}.bias bias""",
        {"text_config": {"head_dim": None}, "vision_config": VISION},
        "model.language_model.layers",
    ),
]

LINEAR_MAPS = {"linear", "head", "router", "expert"}
# Stacks beside a family's own, whose layers the table writes out.
OTHER_STACKS = ("model.visual.blocks",)


def alternatives(pattern: str) -> list[str]:
    """Return the names that `a.{b,c}.d` stands for."""
    parts = [part.split(",") for part in re.split(r"[{}]", pattern)]
    parts = [[",".join(part)] if i % 2 == 0 else part for i, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*parts)]


def place_of(family: Family, name: str, layer: int) -> tuple[str, int, str]:
    """Return (full name, layer, stack) of a name of the table."""
    if not name.startswith("/"):
        return f"{family.stack}.{layer}.{name}", layer, family.stack
    for stack in OTHER_STACKS:
        if name.startswith(f"/{stack}."):
            return name[1:], int(name.removeprefix(f"/{stack}.").split(".")[0]), stack
    return name[1:], -1, ""


def module_of(name: str) -> str:
    """Return the module's label: a bare parameter's own name, else the last segment before it that is no number."""
    *path, leaf = name.split(".")
    return [part for part in path if not part.isdigit()][-1] if leaf in ("weight", "bias") else leaf


def expected(family: Family) -> dict[str, dict[str, Any]]:
    """Write the table out: what is to be found, by name."""
    rows: dict[str, dict[str, Any]] = {}
    for line in lines(family.table):
        fields = line.split()
        layers = range(family.layers)
        if fields[0].startswith("@"):
            layers = [int(digit) for digit in fields.pop(0)[1:]]
        pattern, kind, *rest = fields
        for name, layer in itertools.product(alternatives(pattern), [0] if pattern.startswith("/") else layers):
            full, index, stack = place_of(family, name, layer)
            row: dict[str, Any] = {"layer": index, "stack": stack, "kind": kind, "module": module_of(full)}
            row["layout"] = "out_in" if kind in LINEAR_MAPS and not full.endswith("scale") else ""
            for text in rest:
                shape = re.fullmatch(r"(?:(\d+)\*)?(\d+)x(\d+)", text)
                if shape:
                    row |= {"matrices": int(shape[1] or 1), "rows": int(shape[2]), "cols": int(shape[3])}
                else:
                    row["layout"] = text
            assert full not in rows, f"the table of {family.name} has {full} twice"
            rows[full] = row
    return rows


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_parameter_is_where_the_table_says(family: Family, tiny):
    # (A48: the prefix of a multimodal class is part of the name and of the stack.)
    model = tiny(family.model_type or family.name, **family.sizes)
    inventory = take_inventory(model)
    found = {info.name: info for info in inventory.infos}
    wanted = expected(family)
    assert len(found) == len(inventory.infos), "names are unique"
    assert sorted(found) == sorted(wanted)
    for name, row in wanted.items():
        assert {key: getattr(found[name], key) for key in row} == row, name
    for entry in inventory.stored:
        info = entry.info
        assert (info.source, info.trainable, info.dtype) == ("full", True, "float32")
        assert info.matrices * info.rows * info.cols == entry.parameter.numel(), info.name
    # Tied and shared tensors count once, and none is left out.
    storages = {parameter.data_ptr(): parameter.numel() for parameter in model.parameters()}
    everything = [*inventory.stored, *inventory.frozen]
    assert sum(entry.parameter.numel() for entry in everything) == sum(storages.values())
    assert inventory.unmeasured == []


def test_the_table_covers_many_families():
    assert len({family.model_type or family.name for family in FAMILIES}) >= 60


def test_every_kind_is_on_the_page_about_the_schema():
    page = (Path(__file__).parents[2] / "docs" / "trace-schema.md").read_text()
    table = page.partition("`kind` is one of")[2].partition("`layout` is")[0]
    explained = {kind for line in table.splitlines() for kind in line.strip("| ").split(" | ")[0].split(", ")}
    found = {row["kind"] for family in FAMILIES for row in expected(family).values()}
    assert found | {"lora_factor"} == explained - {"", "kind", "---|---"}
