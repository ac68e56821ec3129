#include "costmodel/runtime/cuda_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::array<std::string_view, kGraphModules> kNames{"attn",           "mlp",  "moe", "moe_router",
                                                             "moe_preprocess", "mamba"};

constexpr std::uint8_t bit(GraphModule module) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(module));
}

constexpr std::uint8_t kWholeLayers =
    bit(GraphModule::Attention) | bit(GraphModule::Mlp) | bit(GraphModule::Moe) | bit(GraphModule::Mamba);

}  // namespace

std::vector<std::string> names_of_modules(const CudaGraphs& graphs) {
  std::vector<std::string> names;
  for (std::size_t m = 0; m < kGraphModules; ++m) {
    if (graphs.has(static_cast<GraphModule>(m))) names.emplace_back(kNames[m]);
  }
  return names;
}

std::string name_of(const CudaGraphs& graphs) {
  if (graphs.iteration) return "iteration";
  if (graphs.modules == 0) return "none";
  return graphs.modules == kWholeLayers ? "layer"
                                        : fmt::format("{}", fmt::join(names_of_modules(graphs), "+"));
}

CudaGraphs parse_cuda_graphs(std::string_view text) {
  if (text == "none") return {};
  if (text == "iteration") return {.iteration = true};
  if (text == "layer") return {.modules = kWholeLayers};
  CudaGraphs graphs;
  for (std::string_view rest = text;;) {
    const std::string_view name = rest.substr(0, rest.find('+'));
    const auto* const found = std::ranges::find(kNames, name);
    if (found == kNames.end())
      throw InputError(
          fmt::format("\"{}\", allowed: none, iteration, layer, or modules with + between them: {}", text,
                      fmt::join(kNames, ", ")));
    graphs.modules |= bit(static_cast<GraphModule>(found - kNames.begin()));
    if (name.size() == rest.size()) break;
    rest.remove_prefix(name.size() + 1);
  }
  if (graphs.has(GraphModule::MoePreprocess) && !graphs.has(GraphModule::MoeRouter))
    throw InputError(fmt::format("\"{}\", allowed: moe_preprocess with moe_router alone", text));
  if (graphs.has(GraphModule::Moe) && graphs.has(GraphModule::MoeRouter))
    throw InputError(fmt::format("\"{}\", allowed: moe_router without moe, which has it", text));
  return graphs;
}

}  // namespace pipesim
