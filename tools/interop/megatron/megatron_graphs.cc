#include "tools/interop/megatron/megatron_graphs.h"

#include <fmt/format.h>

#include <string_view>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr int kGraphLists = 16;       // the first core whose --cuda-graph-scope is a list of modules
constexpr int kGraphModuleFlag = 18;  // the first core that has --cuda-graph-modules
constexpr std::string_view kWholeIteration = "full_iteration";

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The local implementation records a router with what follows it.
void complete_router(CudaGraphs& graphs, bool local) {
  const CudaGraphs both = parse_cuda_graphs("moe_router+moe_preprocess");
  if ((graphs.modules & both.modules) != 0 && local) graphs.modules |= both.modules;
}

bool has_dense_layers(const DecoderSizes& sizes) { return !sizes.experts || sizes.experts->dense_layers > 0; }

}  // namespace

CudaGraphs megatron_graphs(const MegatronFile& file, std::vector<std::string>& left_out) {
  std::string impl = file.text("--cuda-graph-impl").value_or("none");
  if (file.given("--enable-cuda-graph")) impl = "local";
  if (file.given("--external-cuda-graph")) impl = "transformer_engine";
  if (impl == "none") return {};
  if (impl == kWholeIteration) return {.iteration = true};
  const char* const flag = file.given("--cuda-graph-modules") ? "--cuda-graph-modules" : "--cuda-graph-scope";
  CudaGraphs graphs;
  bool all = true;
  for (const std::string& given : file.texts(flag)) {
    for (const std::string& name : split_at(given, ',')) {
      if (name == kWholeIteration) return {.iteration = true};
      if (name == "full") continue;
      all = false;
      try {
        // moe_preprocess can't be read alone.
        graphs.modules |= name == "moe_preprocess" ? parse_cuda_graphs("moe_router+moe_preprocess").modules
                                                   : parse_cuda_graphs(name).modules;
      } catch (const InputError&) {
        left_out.push_back(fmt::format("{}: {} is launched kernel by kernel", flag, name));
      }
    }
  }
  if (all) return parse_cuda_graphs("layer");
  complete_router(graphs, impl == "local");
  return graphs;
}

void write_megatron_graphs(const FrameworkPlan& plan, MegatronWriter& w) {
  const int version = megatron_version(plan).number;
  if (plan.graphs == CudaGraphs()) return;
  if (plan.graphs.iteration) {
    w.flag("--no-check-for-nan-in-loss-and-grad");
    if (version >= kGraphModuleFlag) return w.add("--cuda-graph-impl", kWholeIteration);
    w.add("--cuda-graph-impl", "local");
    return w.add("--cuda-graph-scope", kWholeIteration);
  }
  w.add("--cuda-graph-impl", "transformer_engine");
  const std::string names = name_of(plan.graphs);
  if (names != "layer")
    w.add_all(version >= kGraphModuleFlag ? "--cuda-graph-modules" : "--cuda-graph-scope",
              split_at(names, '+'));
}

void refuse_megatron_graphs(const FrameworkPlan& plan, RuleCheck& check) {
  const CudaGraphs graphs = plan.graphs;
  if (graphs == CudaGraphs()) return;
  const auto refuse = [&](const char* why) {
    check.refuse([&] {
      return Refusal{"graphs=" + name_of(graphs), why, [](FrameworkPlan& p) { p.graphs = {}; }};
    });
  };
  if (megatron_version(plan).number < kGraphLists)
    return refuse("--cuda-graph-scope names modules from core 0.16 on");
  const DecoderSizes& sizes = plan.sizes;
  const bool padded = sizes.experts && sizes.experts->capacity != 1;
  if (graphs.has(GraphModule::Moe) && sizes.experts && !padded)
    refuse("experts are recorded where each takes a fixed number of tokens");
  if (!sizes.experts && graphs.has(GraphModule::MoeRouter))
    refuse("a router is recorded where there are experts");
  if (graphs.has(GraphModule::Mlp) && name_of(graphs) != "layer" && !has_dense_layers(sizes))
    refuse("mlp is recorded where a layer has no experts");
  if (graphs.has(GraphModule::MoePreprocess) && padded && plan.dispatcher != Dispatcher::HybridEp)
    refuse("moe_preprocess is recorded where experts take all tokens");
  if (plan.recipe.recompute.of_layers() && !graphs.iteration)
    refuse("layers that are computed again are recorded with the whole iteration alone");
}

}  // namespace pipesim
