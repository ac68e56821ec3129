#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/runtime/runtime.h"
#include "topologies/topology.h"

namespace pipesim {

/// What a constant of a cluster multiplies.
enum class ConstantKind : std::uint8_t {
  Products,      ///< the rate of matrix products beside fused attention
  Attention,     ///< the rate of fused attention
  Memory,        ///< the bandwidth of a device's memory
  Update,        ///< the time of weight updates, see Runtime::update
  Host,          ///< all times of a runtime's host
  NodeLinks,     ///< the bandwidth of links inside a node
  NetworkLinks,  ///< the bandwidth of links that leave a node
  Latency        ///< what collectives and messages take beside their bytes
};
inline constexpr std::size_t num_constant_kinds = 8;

std::string_view name_of(ConstantKind kind);              ///< "products", … "network links", "latency"
ConstantKind parse_constant_kind(std::string_view name);  ///< InputError with the allowed names
/// How far the constant may be from 1 before any run is known: standard deviation of the factor's logarithm.
/// Estimated: how far published figures of well-kept clusters differ from what they reach.
double prior_deviation(ConstantKind kind);

struct Constant {
  ConstantKind kind = ConstantKind::Products;
  std::string runtime;  ///< of ConstantKind::Host: the runtime's name without its figures; else ""
  double log = 0;       ///< logarithm of the factor; 0 changes nothing
  [[nodiscard]] std::string text() const;  ///< "products", "host megatron"
  bool operator==(const Constant&) const = default;
};

/// Where constants come from.
struct ConstantsSource {
  std::string file;       ///< the table of runs
  std::int64_t runs = 0;  ///< that they were fitted to
  std::string date;       ///< UTC, "2025-03-01T12:00:00Z"
  bool operator==(const ConstantsSource&) const = default;
};

/// The few physical constants of a cluster, as factors on what its topology and runtime say, fitted to runs.
/// Logarithms of the factors are normally distributed; the time of a run that was predicted with them differs
/// by a further, independent logarithm of the standard deviation `discrepancy`.
struct ClusterConstants {
  std::string device;  ///< the kind of device that they hold for
  std::vector<Constant> constants;
  std::vector<double> covariance;  ///< of the logarithms, row by row
  double discrepancy = 0;          ///< standard deviation of ln(measured / predicted) beside the constants
  ConstantsSource source;
  bool operator==(const ClusterConstants&) const = default;
};

/// A topology with the constants in its figures. Shares of a peak stay at most 1. Kinds of devices of other
/// names keep their figures. InputError when the topology has no device of the kind.
Topology with_constants(const Topology& topology, const ClusterConstants& constants);
/// Hosts of runtimes that have no constant stay as they are.
Runtime with_constants(Runtime runtime, const ClusterConstants& constants);
/// The factor on Latency.
double latency_factor(const ClusterConstants& constants);

/// Times between which 90 % of measured runs are expected.
struct PredictionInterval {
  Seconds low, high;
  [[nodiscard]] bool holds(Seconds measured) const { return low <= measured && measured <= high; }
  bool operator==(const PredictionInterval&) const = default;
};
/// Standard deviation of ln(measured / predicted). `sensitivities`: by how much the logarithm of the
/// predicted time changes with the logarithm of each constant.
double log_deviation(const ClusterConstants& constants, std::span<const double> sensitivities);
PredictionInterval interval_around(Seconds predicted, double log_deviation);
/// Return the standard deviation of the logarithm of a constant's factor, and the interval in which the
/// factor lies with 90 % probability.
double deviation_of(const ClusterConstants& constants, std::size_t number);
PredictionInterval interval_of_factor(const ClusterConstants& constants, std::size_t number);

/// The file that `calibrate --runs` writes, JSON.
std::string to_json(const ClusterConstants& constants);
/// InputError `FILE: PLACE: found …, allowed …`.
ClusterConstants parse_constants(std::string_view text, const std::string& source);

}  // namespace pipesim
