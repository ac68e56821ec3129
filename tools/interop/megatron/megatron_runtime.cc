#include "tools/interop/megatron/megatron_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/errors.h"
#include "tools/interop/megatron/megatron_allocator.h"
#include "tools/interop/megatron/megatron_arguments.h"

namespace pipesim {
namespace {

// The first cores that have --cuda-graph-impl, lists in --cuda-graph-scope, and --cuda-graph-modules.
constexpr int kGraphImpl = 15, kGraphLists = 16, kGraphModuleFlag = 18;
constexpr std::string_view kWholeIteration = "full_iteration";

// DeepEP is the older backend of flex, and its own.
void read_dispatcher(const MegatronFile& file, FrameworkRun& run) {
  const std::string dispatcher = file.text("--moe-token-dispatcher-type").value_or("alltoall");
  if (dispatcher == "alltoall" || dispatcher == "alltoall_seq") return;
  const std::string backend = file.text("--moe-flex-dispatcher-backend").value_or("deepep");
  if (dispatcher != "flex" || (backend != "deepep" && backend != "hybridep")) {
    run.left_out.push_back(fmt::format("--moe-token-dispatcher-type: {} exchanges tokens as alltoall does",
                                       dispatcher == "flex" ? backend : dispatcher));
    return;
  }
  const bool hybrid = backend == "hybridep";
  run.dispatcher = hybrid ? Dispatcher::HybridEp : Dispatcher::DeepEp;
  const auto given = file.count("--moe-flex-dispatcher-num-sms"),
             own = file.count(hybrid ? "--moe-hybridep-num-sms" : "--moe-deepep-num-sms");
  constexpr std::int64_t kMost = 64;
  run.dispatcher_multiprocessors =
      static_cast<std::int32_t>(std::min(given ? *given : own.value_or(0), kMost));
}

// The modules that are listed, or whole layers. The local implementation records a router with what follows
// it, and that is never recorded without.
CudaGraphs listed_graphs(const MegatronFile& file, bool local, std::vector<std::string>& left_out) {
  const char* const flag = file.given("--cuda-graph-modules") ? "--cuda-graph-modules" : "--cuda-graph-scope";
  CudaGraphs graphs;
  bool all = true;
  for (const std::string& name : file.texts(flag)) {
    if (name == kWholeIteration) return {.iteration = true};
    if (name == "full") continue;
    all = false;
    const bool both = name == "moe_preprocess" || (name == "moe_router" && local);
    try {
      graphs.modules |= parse_cuda_graphs(both ? "moe_router+moe_preprocess" : name).modules;
    } catch (const InputError&) {
      left_out.push_back(fmt::format("{}: {} is launched kernel by kernel", flag, name));
    }
  }
  return all ? parse_cuda_graphs("layer") : graphs;
}

CudaGraphs read_graphs(const MegatronFile& file, std::vector<std::string>& left_out) {
  const std::string impl = file.given("--enable-cuda-graph") ? "local"
                           : file.given("--external-cuda-graph")
                               ? "transformer_engine"
                               : file.text("--cuda-graph-impl").value_or("none");
  if (impl == kWholeIteration) return {.iteration = true};
  if (impl == "local" || impl == "transformer_engine") return listed_graphs(file, impl == "local", left_out);
  if (impl != "none")
    left_out.push_back(
        fmt::format("--cuda-graph-impl: {} is not known, so kernels are launched one by one", impl));
  return {};
}

bool has_dense_layers(const DecoderSizes& sizes) { return !sizes.experts || sizes.experts->dense_layers > 0; }

}  // namespace

void read_megatron_runtime(const MegatronFile& file, FrameworkRun& run) {
  if (file.given("--no-gradient-accumulation-fusion") &&
      !file.given("--use-megatron-fsdp"))  // which goes without
    run.left_out.emplace_back("--no-gradient-accumulation-fusion: kernels are fused as usual");
  read_dispatcher(file, run);
  run.graphs = read_graphs(file, run.left_out);
  run.expandable_segments = asks_for_expandable_segments(file, run.left_out);
}

void write_megatron_dispatcher(const FrameworkPlan& plan, MegatronWriter& w) {
  const bool flex = plan.dispatcher == Dispatcher::DeepEp || plan.dispatcher == Dispatcher::HybridEp;
  w.add("--moe-token-dispatcher-type", flex ? "flex" : "alltoall");
  if (!flex) return;
  const bool hybrid = plan.dispatcher == Dispatcher::HybridEp;
  if (megatron_version(plan).number >= kMegatronBackends) {
    w.add("--moe-flex-dispatcher-backend", std::string(name_of(plan.dispatcher)));
  } else {
    w.flag("--moe-enable-deepep");
  }
  if (plan.dispatcher_multiprocessors > 0 && megatron_version(plan).number >= kMegatronBackends)
    w.add(hybrid ? "--moe-hybridep-num-sms" : "--moe-deepep-num-sms", plan.dispatcher_multiprocessors);
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
  if (name_of(plan.graphs) != "layer")
    w.add_all(version >= kGraphModuleFlag ? "--cuda-graph-modules" : "--cuda-graph-scope",
              names_of_modules(plan.graphs));
}

void refuse_megatron_graphs(const FrameworkPlan& plan, RuleCheck& check) {
  const CudaGraphs graphs = plan.graphs;
  if (graphs == CudaGraphs()) return;
  const auto refuse = [&](const char* why) {
    check.refuse([&] {
      return Refusal{"graphs=" + name_of(graphs), why, [](FrameworkPlan& p) { p.graphs = {}; }};
    });
  };
  const int version = megatron_version(plan).number;
  if (version < kGraphImpl) return refuse("--cuda-graph-impl came with core 0.15");
  if (graphs.iteration) return;
  if (version < kGraphLists) return refuse("--cuda-graph-scope names modules from core 0.16 on");
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
  if (plan.recipe.recompute.of_layers())
    refuse("layers that are computed again are recorded with the whole iteration alone");
}

}  // namespace pipesim
