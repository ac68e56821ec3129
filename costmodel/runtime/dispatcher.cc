#include "costmodel/runtime/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// By how the name of a kind begins, as CUDA counts them. Of GB200 and GB300 there are up to 152.
constexpr std::array<std::pair<std::string_view, std::int32_t>, 10> kMultiprocessors{{{"A100", 108},
                                                                                      {"A800", 108},
                                                                                      {"H100-PCIe", 114},
                                                                                      {"H100", 132},
                                                                                      {"H200", 132},
                                                                                      {"H800", 132},
                                                                                      {"GH200", 132},
                                                                                      {"H20", 78},
                                                                                      {"B200", 148},
                                                                                      {"B300", 148}}};

std::int32_t multiprocessors_of(std::string_view kind) {
  for (const std::string_view maker : {"NVIDIA ", "G"}) {  // GB200 and GB300 are B200 and B300 with a Grace
    if (kind.starts_with(maker) && !kind.starts_with("GH")) kind.remove_prefix(maker.size());
  }
  const auto known =
      std::ranges::find_if(kMultiprocessors, [&](const auto& k) { return kind.starts_with(k.first); });
  if (known != kMultiprocessors.end()) return known->second;
  throw InputError(fmt::format(
      "runtime: dispatcher: the number of multiprocessors of {} is not known; allowed: devices of "
      "A100 and later GPUs, or dispatcher=as-model",
      kind));
}

// What a dispatcher takes unasked, and bytes a second of a multiprocessor.
struct Rates {
  std::int32_t usual = 0;
  double inside = 0, between = 0;
};

// The slopes at few multiprocessors, where no link is the limit, of tokens in bfloat16 with 7,168 features, 8
// of 256 experts, 8,192 a device, on H100. DeepEP: combine on 4 of them (ai-dynamo/aiconfigurator,
// wideep_deepep_normal_perf: 81.0 GB/s in a node, 40.8 GB/s on two nodes), of which Megatron-LM gives it 20.
// HybridEP: 44.4 GB/s a node that a token reaches with 4 of them on two nodes (6.5 devices a token and 2
// nodes: 36 GB/s each); 735 GB/s with 16 in a node of B200. NCCL's kernels copy as fast as links carry; it
// has 16 channels to peers.
Rates rates_of(Dispatcher dispatcher) {
  switch (dispatcher) {
    case Dispatcher::AllToAll:
      return {16, 0, 0};
    case Dispatcher::DeepEp:
      return {20, 20.3e9, 10.2e9};
    case Dispatcher::HybridEp:
      return {16, 45.9e9, 36.1e9};
    case Dispatcher::AsModel:
      break;
  }
  return {};
}

// A product goes on at half its rate beside a collective of NCCL: 1,001 mixtures on 8 A100 (Dazz993/Mist).
// NCCL copies with 24 of 108 multiprocessors there, a channel each, two channels for each of 12 links. What
// is lost on the others is lost to memory and caches, whatever copies.
double left_beside_copies(std::int32_t taken, std::int32_t all) {
  constexpr double kMeasured = 0.5, kLeftThere = 1 - 24.0 / 108;
  return (1 - static_cast<double>(taken) / all) * (kMeasured / kLeftThere);
}

}  // namespace

DispatcherWork dispatcher_work(const Runtime& runtime, std::string_view kind, bool between_nodes) {
  if (runtime.dispatcher == Dispatcher::AsModel) return {};
  const Rates rates = rates_of(runtime.dispatcher);
  const std::int32_t taken =
      runtime.dispatcher_multiprocessors > 0 ? runtime.dispatcher_multiprocessors : rates.usual;
  const std::int32_t all = multiprocessors_of(kind);
  return {taken, 1 - left_beside_copies(taken, all),
          BytesPerSecond(taken * (between_nodes ? rates.between : rates.inside))};
}

}  // namespace pipesim
