#include "topologies/kind_parts.h"

#include <fmt/format.h>

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
  kind.products.efficiency = {{Flops(1), limit}};
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
DeviceKind with_measured_attention(DeviceKind kind, FusedAttention shares, const std::string& from) {
  return with_fused_attention(
      std::move(kind), shares,
      fmt::format(
          "{:g} and {:g} of peak in forward and backward for long sequences, half of that where a query "
          "sees {:g} keys, {} of cuDNN in NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training, or "
          "where all heads have {:g} rows, fitted to forward passes of ai-dynamo/aiconfigurator",
          shares.forward, shares.backward, shares.half_rate_keys, from, shares.half_rate_rows));
}
DeviceKind with_hopper_attention(DeviceKind kind) {
  return with_measured_attention(std::move(kind), {0.735, 0.62, 400, 10000}, "measured on H200");
}
DeviceKind with_flash_attention_2_on_hopper(DeviceKind kind) {
  kind.flash_attention_2 = {0.37, 0.31};
  kind.source +=
      "; FlashAttention-2: 0.37 and 0.31 of peak in forward and backward, as Shah et al. measured beside "
      "version 3, figures 5 and 6";
  return kind;
}
DeviceKind with_sustained(DeviceKind kind, double share, const std::string& from) {
  kind.products.sustained = share;
  kind.source += fmt::format("; sustained: {:g} of that, {}", share, from);
  return kind;
}
DeviceKind with_narrow_products(DeviceKind kind, const std::map<DataType, NarrowShares>& shares,
                                double sustained) {
  constexpr double kFirst = 1.73e10, kStep = 3.162;
  for (const auto& [type, of_type] : shares) {
    ProductRate& rate = kind.product_rates[type];
    double flops = kFirst;
    for (const double share : of_type) {
      rate.efficiency.push_back({Flops(flops), share});
      flops *= kStep;
    }
    rate.sustained = sustained;
  }
  kind.source += fmt::format(
      "; products in 8 and 4 bits: medians of ai-dynamo/aiconfigurator by FLOPs, of which {:g} is sustained, "
      "as "
      "runs at the power limit there are slower",
      sustained);
  return kind;
}
DeviceKind at_power(DeviceKind kind, double watts, double usual_watts) {
  const double clock = std::cbrt(watts / usual_watts);
  kind.products.sustained *= clock;
  for (auto& [type, rate] : kind.product_rates) rate.sustained *= clock;
  for (auto* attention : {&kind.fused_attention, &kind.flash_attention_2}) {
    if (!*attention) continue;
    (*attention)->forward *= clock;
    (*attention)->backward *= clock;
  }
  return kind;
}

}  // namespace pipesim::kinds
