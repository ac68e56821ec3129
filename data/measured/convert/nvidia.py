"""What NeMo, Megatron-Bridge and MLPerf share: models, systems, recipes and runtimes of NVIDIA's runs."""

import dataclasses
import re

from runs_table import part_of

# The text of --model but for the sequence. GPT3: NeMo's configurations of 5b, 20b and 175b. Nemotron: arXiv:2402.16819,
# table 1, and 2406.11704, table 1; Nemotron-8B: its config.json. Squared ReLU costs what GELU does.
NEMOTRON = "dropout=0,bias=no,position=rotary,projection=untied"
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
    "Qwen3-30B-a3B": "qwen3-235b:layers=48,hidden=2048,heads=32,kv_heads=4,ffn=768", "Qwen3-235B-a22B": "qwen3-235b:"}
# Presets of pipesim, with their devices a node.
PRESETS = {"A100": ("dgx-a100", 8), "H100": ("dgx-h100", 8), "H200": ("hgx-h200", 8), "B200": ("dgx-b200", 8),
           "GB200": ("gb200-nvl72", 72)}
GPU = re.compile(r"(GB\d+|[ABH]\d{3}|V100)", re.IGNORECASE)


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


def model_text(name, sequence, products):
    text = MODELS[name] if MODELS[name].endswith(":") else MODELS[name] + ","
    text += f"dtype=bfloat16,sequence={sequence}"
    if text.startswith("gpt:"):
        text += f",positions={sequence}"
    return text + (f",products={products}" if products != "own" else "")


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

    def recipe(self):
        """Follows the configurations of NeMo, Megatron-Bridge and MLPerf: sequence parallelism with tensor parallelism, the
        distributed optimizer, and communication of data parallelism beside compute."""
        text = f"tp{self.tp},pp{self.pp},cp{self.cp},dp{self.copies()},mbs{self.mbs},zero1"
        text += ",sp" if self.tp > 1 else ""
        text += f",ep{self.ep},etp1" if self.ep > 1 else ""
        text += f",vpp{self.vpp}" if self.vpp > 1 else ""
        text += ",overlap=gather" if self.copies() * self.cp > 1 else ""
        return text + (",reduce=overlapped" if self.pp > 1 else "")


def runtime_of(tensor_overlap):
    """Communication of tensor parallelism, too, runs beside compute with NeMo and Megatron-Bridge (tp_comm_overlap), and
    where MLPerf's configurations say so. Products add to gradients' sums, Megatron-LM's default."""
    return "megatron:overlap=always,gradient-sums=in-products,tensor-overlap=" + ("always" if tensor_overlap else "never")
