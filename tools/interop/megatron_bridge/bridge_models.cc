#include "tools/interop/megatron_bridge/bridge_models.h"

#include <algorithm>
#include <array>

// Sizes are those of each model's config.json.

namespace pipesim {
namespace {

struct HubModel {
  std::string_view name, zoo;
};

constexpr std::array kHubModels = std::to_array<HubModel>({
    {"meta-llama/Llama-2-7b-hf", "llama:sequence=4096,norm_epsilon=1e-05"},
    {"meta-llama/Meta-Llama-3-8B", "llama3-8b"},
    {"meta-llama/Meta-Llama-3-70B", "llama3-70b"},
    {"meta-llama/Meta-Llama-3.1-8B", "llama3-8b:rotary_scaling=llama3,rotary_factor=8"},
    {"meta-llama/Meta-Llama-3.1-70B", "llama3-70b:rotary_scaling=llama3,rotary_factor=8"},
    {"meta-llama/Meta-Llama-3.1-405B", "llama3-405b:rotary_scaling=llama3,rotary_factor=8"},
    {"meta-llama/Llama-3.1-8B", "llama3-8b:rotary_scaling=llama3,rotary_factor=8"},
    {"meta-llama/Llama-3.1-70B", "llama3-70b:rotary_scaling=llama3,rotary_factor=8"},
    {"meta-llama/Llama-3.1-405B", "llama3-405b:rotary_scaling=llama3,rotary_factor=8"},
    {"meta-llama/Llama-3.2-1B",
     "llama3-8b:layers=16,hidden=2048,heads=32,kv_heads=8,ffn=8192,projection=tied,rotary_scaling=llama3,"
     "rotary_factor=32"},
    {"meta-llama/Llama-3.2-3B",
     "llama3-8b:layers=28,hidden=3072,heads=24,kv_heads=8,ffn=8192,projection=tied,rotary_scaling=llama3,"
     "rotary_factor=32"},
    {"Qwen/Qwen3-0.6B",
     "qwen3-8b:layers=28,hidden=1024,heads=16,kv_heads=8,head_width=128,ffn=3072,projection=tied"},
    {"Qwen/Qwen3-1.7B",
     "qwen3-8b:layers=28,hidden=2048,heads=16,kv_heads=8,head_width=128,ffn=6144,projection=tied"},
    {"Qwen/Qwen3-4B",
     "qwen3-8b:layers=36,hidden=2560,heads=32,kv_heads=8,head_width=128,ffn=9728,projection=tied"},
    {"Qwen/Qwen3-8B", "qwen3-8b"},
    {"Qwen/Qwen3-14B", "qwen3-8b:layers=40,hidden=5120,heads=40,kv_heads=8,head_width=128,ffn=17408"},
    {"Qwen/Qwen3-32B", "qwen3-8b:layers=64,hidden=5120,heads=64,kv_heads=8,head_width=128,ffn=25600"},
    {"Qwen/Qwen3-30B-A3B", "qwen3-235b:layers=48,hidden=2048,heads=32,kv_heads=4,head_width=128,ffn=768"},
    {"Qwen/Qwen3-235B-A22B", "qwen3-235b"},
    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
    {"mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"},
    {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
    {"deepseek-ai/DeepSeek-V3-Base", "deepseek-v3"},
});

}  // namespace

std::string_view zoo_model_of_hub(std::string_view name) {
  const auto known = std::ranges::find(kHubModels, name, &HubModel::name);
  return known == kHubModels.end() ? "" : known->zoo;
}

std::vector<std::string> hub_models() {
  std::vector<std::string> names;
  for (const HubModel& model : kHubModels) names.emplace_back(model.name);
  return names;
}

}  // namespace pipesim
