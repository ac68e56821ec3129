#include "topologies/kind_parts.h"

#include <cmath>
#include <utility>

namespace pipesim::kinds {
namespace {

constexpr const char* kCallsMeasured = "fitted to NCCL's small calls of ai-dynamo/aiconfigurator on ";

std::string provenance_text(const Provenance& from) {
  return "datasheet: peak rates, memory and its bandwidth, " + from.datasheet +
         "; measured by others: " + from.measured + "; estimated: " + from.estimated;
}

// Returns what frameworks take, with the `mebibytes` that nvidia-smi reports; the header names the sources.
MemoryOverhead frameworks_on(std::int64_t mebibytes) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  constexpr double kFragmentation = 0.03;
  return {Bytes(mebibytes * kMebibyte), Bytes(1'200'000'000), Bytes(688 * kMebibyte), kFragmentation};
}

}  // namespace

DeviceKind kind(std::string name, Peaks peak, double limit, Memory memory, const Provenance& from) {
  DeviceKind kind;
  kind.name = std::move(name);
  kind.efficiency = {{Flops(1), limit}};
  kind.peak = std::move(peak);
  kind.memory = Bytes(static_cast<std::int64_t>(memory.gigabytes * 1e9));
  kind.memory_bandwidth = BytesPerSecond(memory.gigabytes_per_second * 1e9);
  kind.memory_efficiency = memory.efficiency;
  kind.launch_overhead = Seconds(2.7e-6);
  kind.source = provenance_text(from);
  return kind;
}

DeviceKind with_frameworks(DeviceKind kind, std::int64_t mebibytes) {
  kind.memory_overhead = frameworks_on(mebibytes);
  return kind;
}

DeviceKind with_fused_attention(DeviceKind kind, FusedAttention shares, const std::string& from) {
  kind.fused_attention = shares;
  kind.source += "; fused attention: " + from;
  return kind;
}

DeviceKind with_collectives(DeviceKind kind, CollectiveTraits traits, const std::string& from) {
  kind.collectives = traits;
  kind.source += "; a call of collectives: " + from;
  return kind;
}
DeviceKind with_ampere_collectives(DeviceKind kind) {
  return with_collectives(std::move(kind), {Seconds(9 / 1e6)}, std::string(kCallsMeasured) + "A100");
}
DeviceKind with_hopper_collectives(DeviceKind kind) {
  return with_collectives(std::move(kind), {Seconds(5.3 / 1e6), true}, std::string(kCallsMeasured) + "H100");
}
DeviceKind with_blackwell_collectives(DeviceKind kind) {
  return with_collectives(std::move(kind), {Seconds(9 / 1e6), true}, std::string(kCallsMeasured) + "B200");
}

DeviceKind with_flash_attention_2(DeviceKind kind) {
  return with_fused_attention(
      std::move(kind), {0.73, 0.63},
      "0.73 and 0.63 of peak in forward and backward, Dao, arXiv:2307.08691, section 4.1");
}
DeviceKind with_flash_attention_3(DeviceKind kind) {
  return with_fused_attention(
      std::move(kind), {0.62, 0.565},
      "0.62 of peak in forward, 614 of 989 TFLOP/s as pytorch/benchmark measured, and 0.565 "
      "in backward, 559 TFLOP/s, Shah et al., arXiv:2407.08608, figure 6");
}
DeviceKind with_flash_attention_2_on_hopper(DeviceKind kind) {
  kind.flash_attention_2 = {0.37, 0.31};
  kind.source +=
      "; FlashAttention-2: 0.37 and 0.31 of peak in forward and backward, as Shah et al. measured beside "
      "version 3, figures 5 and 6";
  return kind;
}
DeviceKind with_sustained(DeviceKind kind, double share) {
  kind.sustained = share;
  kind.source += "; sustained: estimated";
  return kind;
}
DeviceKind with_flash_attention_4(DeviceKind kind) {
  return with_fused_attention(
      std::move(kind), {0.71, 0.65},
      "0.71 of peak in forward, 1613 TFLOP/s on B200, as the authors of FlashAttention-4 "
      "report; in backward 0.65, as much less as on H100");
}
DeviceKind at_power(DeviceKind kind, double watts, double usual_watts) {
  const double clock = std::cbrt(watts / usual_watts);
  kind.sustained *= clock;
  for (auto* attention : {&kind.fused_attention, &kind.flash_attention_2}) {
    if (!*attention) continue;
    (*attention)->forward *= clock;
    (*attention)->backward *= clock;
  }
  return kind;
}

}  // namespace pipesim::kinds
