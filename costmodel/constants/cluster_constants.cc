#include "costmodel/constants/cluster_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

struct KindEntry {
  std::string_view name;
  double deviation;
};

// By ConstantKind.
constexpr std::array<KindEntry, num_constant_kinds> kConstantKinds{{{"products", 0.15},
                                                                    {"attention", 0.2},
                                                                    {"memory", 0.15},
                                                                    {"update", 0.3},
                                                                    {"host", 0.5},
                                                                    {"node links", 0.2},
                                                                    {"network links", 0.3},
                                                                    {"latency", 0.5}}};

double factor_of(const ClusterConstants& constants, ConstantKind kind) {
  const auto found = std::ranges::find(constants.constants, kind, &Constant::kind);
  return found == constants.constants.end() ? 1 : std::exp(found->log);
}

double share(double fraction, double factor) { return std::min(1.0, fraction * factor); }

void scale_attention(std::optional<FusedAttention>& attention, double factor) {
  if (!attention) return;
  attention->forward = share(attention->forward, factor);
  attention->backward = share(attention->backward, factor);
}

// Scales what products sustain, and where that would exceed 1, what short runs reach.
void scale(ProductRate& products, double factor) {
  const double sustained = products.sustained * factor;
  products.sustained = std::min(1.0, sustained);
  if (sustained <= 1) return;
  for (EfficiencyPoint& point : products.efficiency) point.fraction = share(point.fraction, sustained);
}
void scale_products(DeviceKind& kind, double factor) {
  scale(kind.products, factor);
  for (auto& [type, rate] : kind.product_rates) scale(rate, factor);
}

bool leaves_node(const Link& link, const std::vector<Vertex>& vertices) {
  const std::int32_t a = vertices[static_cast<std::size_t>(link.a)].node,
                     b = vertices[static_cast<std::size_t>(link.b)].node;
  return a < 0 || b < 0 || a != b;
}

}  // namespace

std::string_view name_of(ConstantKind kind) { return kConstantKinds.at(static_cast<std::size_t>(kind)).name; }

double prior_deviation(ConstantKind kind) {
  return kConstantKinds.at(static_cast<std::size_t>(kind)).deviation;
}

ConstantKind parse_constant_kind(std::string_view name) {
  std::vector<std::string> allowed;
  for (std::size_t k = 0; k < num_constant_kinds; ++k) {
    if (kConstantKinds[k].name == name) return static_cast<ConstantKind>(k);
    allowed.emplace_back(kConstantKinds[k].name);
  }
  throw InputError(fmt::format("found \"{}\", allowed {}", name, list_names(allowed)));
}

std::string Constant::text() const {
  return runtime.empty() ? std::string(name_of(kind)) : fmt::format("{} {}", name_of(kind), runtime);
}

Topology with_constants(const Topology& topology, const ClusterConstants& constants) {
  TopologyParts parts = topology.parts();
  bool has_kind = false;
  for (DeviceKind& kind : parts.kinds) {
    if (kind.name != constants.device) continue;
    has_kind = true;
    scale_products(kind, factor_of(constants, ConstantKind::Products));
    scale_attention(kind.fused_attention, factor_of(constants, ConstantKind::Attention));
    scale_attention(kind.flash_attention_2, factor_of(constants, ConstantKind::Attention));
    kind.memory_efficiency = share(kind.memory_efficiency, factor_of(constants, ConstantKind::Memory));
  }
  if (!has_kind)
    throw InputError(fmt::format("the constants are of {}, and topology \"{}\" has none of them",
                                 constants.device, topology.name()));
  const double node = factor_of(constants, ConstantKind::NodeLinks),
               network = factor_of(constants, ConstantKind::NetworkLinks);
  for (Link& link : parts.links)
    link.bandwidth = link.bandwidth * (leaves_node(link, parts.vertices) ? network : node);
  return Topology(std::move(parts)).with_memory_margin(topology.memory_margin());
}

Runtime with_constants(Runtime runtime, const ClusterConstants& constants) {
  const std::string name = runtime.name.substr(0, runtime.name.find(':'));
  for (const Constant& constant : constants.constants) {
    const double factor = std::exp(constant.log);
    if (constant.kind == ConstantKind::Update) runtime.update *= factor;
    if (constant.kind != ConstantKind::Host || constant.runtime != name) continue;
    runtime.host = runtime.host.scaled(factor);
  }
  return runtime;
}

double latency_factor(const ClusterConstants& constants) {
  return factor_of(constants, ConstantKind::Latency);
}

double log_deviation(const ClusterConstants& constants, std::span<const double> sensitivities) {
  const std::size_t count = constants.constants.size();
  double variance = constants.discrepancy * constants.discrepancy;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j)
      variance += sensitivities[i] * constants.covariance[i * count + j] * sensitivities[j];
  }
  return std::sqrt(std::max(0.0, variance));
}

PredictionInterval interval_around(Seconds predicted, double log_deviation) {
  constexpr double kNormal90 = 1.6449;  // standard deviations to either side
  const double factor = std::exp(kNormal90 * log_deviation);
  return {Seconds(predicted.value / factor), Seconds(predicted.value * factor)};
}

double deviation_of(const ClusterConstants& constants, std::size_t number) {
  return std::sqrt(constants.covariance[number * constants.constants.size() + number]);
}

PredictionInterval interval_of_factor(const ClusterConstants& constants, std::size_t number) {
  return interval_around(Seconds(std::exp(constants.constants[number].log)), deviation_of(constants, number));
}

}  // namespace pipesim
