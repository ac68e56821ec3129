#include "tools/interop/torchtitan/torchtitan_flavors.h"

#include <array>

// Sizes are those of torchtitan/models/*/__init__.py, of v0.2.2 and of the main branch, which agree where
// both have a model. Folders of tokenizers are those that torchtitan's scripts/download_hf_assets.py makes.

namespace pipesim {
namespace {

constexpr std::string_view kSoftmax = "scores of experts are sigmoids";
constexpr std::string_view kEverySecond = "experts in every second layer can't be expressed";
constexpr std::string_view kNoPositions = "layers without positions are taken with them";
constexpr std::string_view kGated =
    "shared experts have a gate of their own, and weights of experts are applied behind them";

constexpr std::array kFlavors = std::to_array<TorchtitanFlavor>({
    {"llama3", "debugmodel", "llama3-8b:layers=6,hidden=256,heads=16,kv_heads=16,ffn=768,vocab=2048", "",
     "llama3_debugmodel"},
    {"llama3", "1B", "llama3-8b:layers=16,hidden=2048,heads=32,kv_heads=8,ffn=8192,projection=tied", "",
     "llama3_8b", "Llama-3.2-1B", true},
    {"llama3", "3B", "llama3-8b:layers=28,hidden=3072,heads=24,kv_heads=8,ffn=8192,projection=tied", "",
     "llama3_8b", "Llama-3.2-3B", true},
    {"llama3", "8B", "llama3-8b", "", "llama3_8b"},
    {"llama3", "70B", "llama3-70b", "", "llama3_70b"},
    {"llama3", "405B", "llama3-405b", "", "llama3_70b", "Llama-3.1-405B"},
    {"llama4", "debugmodel", "", kEverySecond},
    {"llama4", "17bx16e",
     "mixtral-8x7b:layers=48,hidden=5120,heads=40,kv_heads=8,ffn=8192,vocab=202048,experts=16,top_k=1,"
     "shared_ffn=8192,balance_loss=0,rotary_base=500000",
     kGated},
    {"llama4", "17bx128e", "", kEverySecond},
    {"deepseek_v3", "debugmodel",
     "deepseek-v3:layers=6,hidden=256,heads=16,query_latent=0,ffn=1024,expert_ffn=256,experts=8,shared_"
     "experts=2,top_k=3,dense_layers=1,router_groups=1,router_top_groups=1,router_scale=1,vocab=2048",
     kSoftmax},
    {"deepseek_v3", "16B",
     "deepseek-v3:layers=27,hidden=2048,heads=16,query_latent=0,ffn=10944,expert_ffn=1408,experts=64,shared_"
     "experts=2,top_k=6,dense_layers=1,router_groups=1,router_top_groups=1,router_scale=1,vocab=102400",
     kSoftmax},
    {"deepseek_v3", "236B",
     "deepseek-v3:layers=60,hidden=5120,heads=128,ffn=12288,expert_ffn=1536,experts=160,shared_experts=2,top_"
     "k=6,"
     "dense_layers=1,router_groups=8,router_top_groups=3,router_scale=16,vocab=102400",
     kSoftmax},
    {"deepseek_v3", "671B", "deepseek-v3", "", "deepseek_v3_671b"},
    {"qwen3", "debugmodel",
     "qwen3-8b:layers=8,hidden=256,heads=16,kv_heads=8,head_width=128,ffn=3072,vocab=2048,projection=tied",
     ""},
    {"qwen3", "0.6B",
     "qwen3-8b:layers=28,hidden=1024,heads=16,kv_heads=8,head_width=128,ffn=3072,projection=tied", "",
     "qwen3_0_6b"},
    {"qwen3", "1.7B",
     "qwen3-8b:layers=28,hidden=2048,heads=16,kv_heads=8,head_width=128,ffn=6144,projection=tied", "",
     "qwen3_1_7b"},
    {"qwen3", "4B",
     "qwen3-8b:layers=36,hidden=2560,heads=32,kv_heads=8,head_width=128,ffn=9728,projection=tied", "",
     "qwen3_1_7b", "Qwen3-4B"},
    {"qwen3", "8B", "qwen3-8b", "", "qwen3_14b", "Qwen3-8B"},
    {"qwen3", "14B", "qwen3-8b:layers=40,hidden=5120,heads=40,kv_heads=8,head_width=128,ffn=17408", "",
     "qwen3_14b"},
    {"qwen3", "32B", "qwen3-8b:layers=64,hidden=5120,heads=64,kv_heads=8,head_width=128,ffn=25600", "",
     "qwen3_32b"},
    {"qwen3", "debugmodel_moe",
     "qwen3-235b:layers=8,hidden=256,heads=16,kv_heads=8,head_width=128,ffn=768,experts=64,top_k=8,vocab="
     "2048,"
     "balance_loss=0",
     ""},
    {"qwen3", "30B-A3B",
     "qwen3-235b:layers=48,hidden=2048,heads=32,kv_heads=4,head_width=128,ffn=768,experts=128,top_k=8,"
     "balance_loss=0",
     "", "qwen3_30b_a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b:rotary_base=5e6,balance_loss=0", "", "qwen3_30b_a3b",
     "Qwen3-235B-A22B"},
    {"gpt_oss", "", "", "windows of attention with sinks can't be expressed"},
    {"flux", "", "", "a model of images is no decoder of words"},
    {"vlm", "", "", "a model of images and words can't be expressed"},
    {"qwen3_5", "", "", "linear attention between layers can't be expressed"},
    {"kimi_k2_7", "", "", "models of images and words, or other routers, can't be expressed"},
    {"muse_glimmer", "", "", "its layers can't be expressed"},
    {"transformers_modeling_backend", "", "",
     "the model is one of Hugging Face, whose sizes are not in the file"},
    {"deepseek_v2", "", "", "routing within groups of experts by softmax can't be expressed"},
});

}  // namespace

std::span<const TorchtitanFlavor> torchtitan_flavors() { return kFlavors; }

}  // namespace pipesim
