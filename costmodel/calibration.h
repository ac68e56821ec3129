#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/constants/cluster_constants.h"
#include "costmodel/cost_model.h"
#include "costmodel/distribution.h"
#include "costmodel/fit.h"
#include "costmodel/host.h"
#include "costmodel/shard_kernel.h"

namespace pipesim {

/// Identifies a measured duration. Both the measuring and the predicting code make keys with the functions
/// below.
struct CalibrationKey {
  enum class Subject : std::uint8_t { Operator, Update, Transfer };
  Subject subject = Subject::Operator;
  std::string name;           ///< kind of operator, optimizer, or collective: "linear", "adam", "all-reduce"
  std::string attributes;     ///< of operators, those that change the kernel: "activation=\"relu\", bias=1"
  Pass pass = Pass::Forward;  ///< of operators; updates have Pass::Update, transfers Pass::Forward
  /// Operators: the shard's length of every factor; under a causal mask also how far its queries begin behind
  /// its keys, or in zigzag order, packed documents or a window how many keys a query sees on average.
  /// Updates: elements. Transfers: devices, bytes as the cost model counts them (collectives.h).
  std::vector<std::int64_t> sizes;
  DataType type = DataType::Float32;
  std::string place;  ///< kind of device or backend ("cpu"); of transfers the class of links, see link_class
  std::int32_t busy_neighbours = 0;  ///< operators and updates: devices that compute beside this one

  auto operator<=>(const CalibrationKey&) const = default;
  /// "linear forward [64, 1024] float32 on cpu (bias=1)", "adam update of 4096 float32 on cpu",
  /// "all-reduce of 4096 B among 4, float32, node".
  [[nodiscard]] std::string str() const;
};

/// Attributes that only repeat the length of a factor are left out, so that sizes can be interpolated.
CalibrationKey operator_key(const OperatorGraph& graph, const Operator& op, Pass pass,
                            std::span<const Range> ranges, std::string device, std::int32_t busy = 0);
CalibrationKey update_key(const Optimizer& optimizer, std::int64_t elements, DataType type,
                          std::string device, std::int32_t busy = 0);
CalibrationKey transfer_key(Collective kind, std::int64_t devices, Bytes size, DataType type,
                            std::string links);

/// Groups that communicate alike: "node" inside one, else how many members each node has, descending:
/// "nodes 4+4". Links of different speed inside a node are not told apart. Parts of a GPU say so: "node of
/// H200/8 (16 of 132 SMs)"; their nodes are the topology's, whose links may be emulated.
std::string link_class(const Topology& topology, std::span<const DeviceId> group);

/// The measurements of one key: clean samples, and the number that was dropped. `work`: for operators, from
/// shard_kernel(); it makes it possible to estimate other sizes.
struct Measurement {
  CalibrationKey key;
  KernelWork work;
  std::vector<double> seconds;
  std::int64_t dropped = 0;
};

/// One call of a program that measured.
struct CalibrationRun {
  HostDescription host;
  std::string date;        ///< UTC, "2025-03-01T12:00:00Z"
  double noise_floor = 0;  ///< relative spread of a fixed busy loop on the idle host
  bool operator==(const CalibrationRun&) const = default;
};

struct RunSamples {
  std::size_t run = 0;  ///< index into Calibration::runs
  Distribution durations;
  bool operator==(const RunSamples&) const = default;
};

struct MeasuredKey {
  KernelWork work;
  std::vector<RunSamples> samples;               ///< at least one
  [[nodiscard]] Distribution durations() const;  ///< of all runs together
  bool operator==(const MeasuredKey&) const = default;
};

/// Everything that was measured, in memory. calibration_store.h keeps durations in a file, and constants have
/// one of their own.
struct Calibration {
  std::vector<CalibrationRun> runs;
  std::map<CalibrationKey, MeasuredKey> keys;
  std::map<std::string, Correction> corrections;  ///< by class, see fit.h
  std::optional<ClusterConstants> constants;      ///< fitted to runs

  /// Whether there is more than constants.
  [[nodiscard]] bool has_durations() const { return !constants || !keys.empty(); }

  /// Adds to the last run, which must exist. InputError when there is no clean sample (`no clean samples of
  /// …, 12 were dropped`) or one is not above zero; the calibration is unchanged then.
  void add(const Measurement& measurement);
  bool operator==(const Calibration&) const = default;
};

}  // namespace pipesim
