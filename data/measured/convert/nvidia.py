"""What NeMo, Megatron-Bridge and MLPerf share: models, systems, recipes and runtimes of NVIDIA's runs."""

import dataclasses
import re

from runs_table import part_of

# The text of --model but for the sequence. GPT3: NeMo's configurations of 5b, 20b and 175b. Nemotron: arXiv:2402.16819,
# table 1, and 2406.11704, table 1; Nemotron-8B: its config.json. Squared ReLU costs what GELU does. The decoders: what
# `pipesim import model` makes of the config.json that each publisher has on Hugging Face.
NEMOTRON = "dropout=0,bias=no,position=rotary,projection=untied"
GPT_OSS = ("hidden=2880,heads=64,head_width=64,kv_heads=8,attention_bias=all,ffn=2880,vocab=201088,mixers=WF,ffns=E,sinks=all,"
           "window=128,expert_ffn=2880,expert_bias=yes,top_k=4")
HYBRID = "head_width=128,vocab=131072,ssm_groups=8,ssm_chunk=128,activation=relu2,gated=no"
HYBRID_EXPERTS = f"kv_heads=2,{HYBRID},router=sigmoid"
NANO = (f"layers=52,hidden=2688,ffn=1856,{HYBRID_EXPERTS},mixers=((M-)2MG-)5(M-)3MG(-M)4-,ffns=((-E)2-2E)5((-E)3-)2E-E,"
        "expert_ffn=1856,shared_ffn=3712,experts=128,top_k=6")
MODELS = {
    "GPT3-5B": "gpt:layers=24,hidden=4096,heads=32,vocab=51200,dropout=0",
    "GPT3-20B": "gpt:layers=44,hidden=6144,heads=48,vocab=51200,dropout=0",
    "GPT3-175B": "gpt:layers=96,hidden=12288,heads=96,vocab=51200,dropout=0",
    "Nemotron-8B": f"gpt:layers=32,hidden=4096,heads=32,vocab=256000,{NEMOTRON}",
    "Nemotron-22B": f"gpt:layers=40,hidden=6144,heads=48,vocab=256000,{NEMOTRON}",
    "Nemotron-340B": f"gpt:layers=96,hidden=18432,heads=96,kv_heads=8,vocab=256000,{NEMOTRON}",
    "LLAMA2-7B": "llama:layers=32,hidden=4096,heads=32,kv_heads=32,ffn=11008,vocab=32000",
    "LLAMA2-13B": "llama:layers=40,hidden=5120,heads=40,kv_heads=40,ffn=13824,vocab=32000",
    "LLAMA2-70B": "llama:layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=32000",
    "LLAMA3-8B": "llama3-8b:", "LLAMA3-70B": "llama3-70b:", "LLAMA3.1-405B": "llama3-405b:", "DeepSeekV3": "deepseek-v3:",
    "Kimi-K2": "deepseek-v3:heads=64,dense_layers=1,experts=384,router_groups=1,router_top_groups=1,vocab=163840",
    "Qwen3-30B-a3B": "qwen3-235b:layers=48,hidden=2048,heads=32,kv_heads=4,ffn=768", "Qwen3-235B-a22B": "qwen3-235b:",
    "Qwen3-Next-80B-a3B": "decoder:layers=48,hidden=2048,heads=16,head_width=256,kv_heads=2,ffn=5120,vocab=151936,mixers=D3F,"
                          "ffns=E,rotary_width=64,head_norm=each,attention_gate=element,expert_ffn=512,shared_ffn=512,"
                          "shared_gate=yes,experts=512,top_k=10",
    "GPT-OSS-20B": f"decoder:layers=24,{GPT_OSS},experts=32", "GPT-OSS-120B": f"decoder:layers=36,{GPT_OSS},experts=128",
    "Nemotron-H-56B": f"decoder:layers=118,hidden=8192,heads=64,kv_heads=8,ffn=32768,{HYBRID},mixers=((M-)3MG-M-)10(M-)4,"
                      "ffns=((-D)3-2D-D)10(-D)4,ssm_heads=256,ssm_states=256",
    "Nemotron-3-Nano": f"decoder:{NANO}", "Nemotron-3.5-Lightning": f"decoder:{NANO}",
    "Nemotron-3-Super": f"decoder:layers=88,hidden=4096,heads=32,ffn=2688,{HYBRID_EXPERTS},"
                        "mixers=((M-)3MG-)3((M-)4MG-)4(M-)3MG(-M)4-,ffns=((-E)3-2E)3((-E)4-2E)4((-E)3-)2E-E,ssm_heads=128,"
                        "expert_ffn=2688,expert_latent=1024,shared_ffn=5376,experts=512,top_k=22",
    "Nemotron-3-Ultra": f"decoder:layers=108,hidden=8192,heads=64,ffn=5120,{HYBRID_EXPERTS},"
                        "mixers=(M-)3(MG(-M)2-)2(M-MG(-M)4G-M-)2((M-)2MG-)2((M-)3MG-)2((M-)2MG-M-)2(M-)3,"
                        "ffns=((-E)3-)3(E-2(E-)4(-E)2-)2((E-)2-E-)2((E-)3(-E)4-2)2(E-)4E,ssm_heads=256,"
                        "expert_ffn=5120,expert_latent=2048,shared_ffn=10240,experts=512,top_k=22"}
# Presets of pipesim, with their devices a node.
PRESETS = {"A100": ("dgx-a100", 8), "H100": ("dgx-h100", 8), "H200": ("hgx-h200", 8), "B200": ("dgx-b200", 8),
           "B300": ("dgx-b300", 8), "GB200": ("gb200-nvl72", 72), "GB300": ("gb300-nvl72", 72)}
# A superchip's name holds that of its GPU: GH200 is no H200.
GPU = re.compile(r"(G[BH]\d+|VR\d+|MI\d+X?|[ABHR]\d{3}|H20|V100)", re.IGNORECASE)


def key_of(name):
    """A model's name as all tables and recipes spell it: "Qwen3_30B_a3B" and "qwen3_30b_a3b" are one."""
    return re.sub("[^a-z0-9]", "", name.lower())


KEYS = {key_of(name): name for name in MODELS}


def gpu_of(text):
    """The GPU that a text names, such as "GB200" of "DGX-GB200"; "" where it names none."""
    found = GPU.search(text)
    return found.group().upper() if found else ""


def devices_of(gpu, gpus):
    """Returns the text of --topology, or None. More than a rack of 72 are racks of 64, as NVIDIA's recipes are made for,
    unless they are whole racks."""
    preset, each = PRESETS[gpu]
    whole = part_of(preset, each, gpus)
    if whole is None and each == 72 and gpus % 64 == 0:
        return f"{preset}:{gpus // 64},gpus=64"
    return whole


def refusal_of_system(gpu, gpus):
    """Why pipesim can't say what these devices are; "": it can."""
    if not gpu:
        return "a system that is not told"
    if gpu not in PRESETS:
        return "a system that pipesim does not know: " + gpu
    return "" if devices_of(gpu, gpus) else "nodes that are not whole"


def model_text(name, sequence, products, more=()):
    """`products`: the precision of products, or "own"; `more`: further options of the model. All these runs are of
    Megatron-LM's modules."""
    text = MODELS[name] if MODELS[name].endswith(":") else MODELS[name] + ","
    text += f"dtype=bfloat16,sequence={sequence},kept=megatron"
    if text.startswith("gpt:"):
        text += f",positions={sequence}"
    return ",".join([text] + ([f"products={products}"] if products != "own" else []) + list(more))


@dataclasses.dataclass
class Degrees:
    gpus: int
    tp: int
    pp: int
    cp: int
    mbs: int
    batch: int
    ep: int = 1
    vpp: int = 1

    def copies(self):
        return self.gpus // (self.tp * self.pp * self.cp)

    def refusal(self):
        if self.gpus % (self.tp * self.pp * self.cp) != 0:
            return "degrees that do not divide the number of GPUs"
        return "" if self.batch % (self.copies() * self.mbs) == 0 else "a batch that microbatches do not divide"

    def recipe(self, state="zero1"):
        """Follows the configurations of NeMo, Megatron-Bridge and MLPerf: sequence parallelism with tensor parallelism, the
        distributed optimizer, and communication of data parallelism beside compute."""
        text = f"tp{self.tp},pp{self.pp},cp{self.cp},dp{self.copies()},mbs{self.mbs},{state}"
        text += ",sp" if self.tp > 1 else ""
        text += f",ep{self.ep},etp1" if self.ep > 1 else ""
        text += f",vpp{self.vpp}" if self.vpp > 1 else ""
        text += ",overlap=gather" if state == "zero1" and self.copies() * self.cp > 1 else ""
        return text + (",reduce=overlapped" if self.pp > 1 else "")


def runtime_of(tensor_overlap, graphs="", dispatcher=""):
    """Communication of tensor parallelism, too, runs beside compute with NeMo and Megatron-Bridge (tp_comm_overlap), and
    where MLPerf's configurations say so. Products add to gradients' sums, Megatron-LM's default. `graphs`: the
    parts of layers that are CUDA graphs, or "iteration". `dispatcher`: what brings tokens to experts."""
    text = "megatron:overlap=always,gradient-sums=in-products,tensor-overlap=" + ("always" if tensor_overlap else "never")
    return text + (f",dispatcher={dispatcher}" if dispatcher else "") + (f",graphs={graphs}" if graphs else "")
