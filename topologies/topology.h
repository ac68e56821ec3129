#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/data_type.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "topologies/memory_margin.h"
#include "topologies/memory_overhead.h"

namespace pipesim {

/// The largest topology that is accepted. A larger one is assumed to be a typing mistake.
inline constexpr std::int64_t max_devices = 100'000;
inline constexpr std::int64_t max_junctions = 400'000;  ///< switches and NICs together
inline constexpr std::int64_t max_links = 1'000'000;

/// One point of a kernel-efficiency curve: kernels of `flops` operations reach `fraction` of the peak rate.
struct EfficiencyPoint {
  Flops flops;
  double fraction = 0;
  bool operator==(const EfficiencyPoint&) const = default;
};

/// What products in one type reach of its peak rate.
struct ProductRate {
  std::vector<EfficiencyPoint> efficiency;  ///< ascending in flops; log-linear between, flat outside
  /// Share of the rate of short runs that products reach when the device multiplies all the time, and its
  /// power limits its clock. In (0, 1].
  double sustained = 1;
  bool operator==(const ProductRate&) const = default;
};

/// Fractions of the peak rate that fused attention with 16-bit types reaches on long sequences, with heads of
/// width 128. Backward's FLOPs include the scores that it computes again.
struct FusedAttention {
  double forward = 1, backward = 1;  ///< in (0, 1]
  /// Keys that a query sees where half of these fractions is reached: tiles that a mask or a window cuts, and
  /// the first and last steps of each row of tiles, cost as much as so many keys. 0: any number reaches them.
  double half_rate_keys = 0;
  /// Rows of all heads' queries where half is reached: fewer leave multiprocessors without a tile.
  double half_rate_rows = 0;
  bool operator==(const FusedAttention&) const = default;
};

/// What NCCL's calls need on a kind of device. With it, collectives inside a node change protocols as NCCL
/// does.
struct CollectiveTraits {
  Seconds call;            ///< before the first byte moves, in the protocol for small messages
  bool in_switch = false;  ///< a switch between such devices adds and copies (NVLS)
  bool operator==(const CollectiveTraits&) const = default;
};

/// The properties of one model of device.
struct DeviceKind {
  std::string name;                         ///< "V100-SXM2-16GB"
  std::map<DataType, FlopsPerSecond> peak;  ///< dense matrix rate per element type
  ProductRate products;                     ///< in any type that has no rates of its own
  /// Types that reach other shares of their peak rate: narrow ones need larger products to be fast.
  std::map<DataType, ProductRate> product_rates;
  std::optional<FusedAttention> fused_attention;    ///< without it: as other products
  std::optional<FusedAttention> flash_attention_2;  ///< where `fused_attention` is a later version's
  Bytes memory;
  BytesPerSecond memory_bandwidth;  ///< peak
  double memory_efficiency = 1;     ///< achievable fraction of memory_bandwidth, in (0, 1]
  Seconds launch_overhead;          ///< per kernel
  MemoryOverhead memory_overhead;   ///< of frameworks, beside what plans need
  std::optional<CollectiveTraits> collectives;
  bool overlap =
      true;  ///< false: transfers to and from the device also occupy its compute lane, until they end
  bool shape_losses = true;  ///< false: products reach the rate of large ones whatever their shape
  std::string source;        ///< where the figures come from
  /// Whether frameworks have fused attention there. Their kernels need GPUs from Ampere on, which are those
  /// that multiply bfloat16 (FlashAttention-2's README; cuDNN's support matrix).
  [[nodiscard]] bool fuses_attention() const { return fused_attention || peak.contains(DataType::BFloat16); }
  bool operator==(const DeviceKind&) const = default;
};

struct Device {
  std::string name;   ///< unique: "node0.gpu3"
  std::int32_t kind;  ///< index into Topology::kinds()
  std::int32_t node;  ///< index into Topology::nodes()
  bool operator==(const Device&) const = default;
};

/// Bus: all its links are one lane, which a message from one of them to another holds once.
enum class VertexKind : std::uint8_t { Device, Switch, Nic, Bus };

/// An end of links. Devices come first: vertex i is device i for i < num_devices().
struct Vertex {
  std::string name;
  VertexKind kind = VertexKind::Device;
  std::int32_t node = -1;  ///< -1: belongs to no node (a network switch)
  bool operator==(const Vertex&) const = default;
};

/// A cable or bus between two vertices. `bandwidth` is the payload rate per direction that software reaches.
/// Full duplex: a lane per direction; otherwise both directions share one lane, at a bus also with its other
/// links.
struct Link {
  std::int32_t a = 0, b = 0;  ///< vertices
  BytesPerSecond bandwidth;
  Seconds latency;
  bool duplex = true;
  LaneId forward, backward;  ///< a→b, b→a; equal when not duplex
  bool operator==(const Link&) const = default;
};

/// Shortest way from one device to another: the lanes in order, the narrowest bandwidth, the sum of
/// latencies.
struct Route {
  std::vector<LaneId> lanes;
  BytesPerSecond bandwidth;
  Seconds latency;
  bool operator==(const Route&) const = default;
};

/// The parts of a topology as they are written down.
struct TopologyParts {
  std::string name;
  std::string source;         ///< where the figures come from
  double price_per_hour = 0;  ///< of one device, in any currency; 0: nobody said
  std::vector<DeviceKind> kinds;
  std::vector<std::string> nodes;
  std::vector<Device> devices;
  std::vector<Vertex> vertices;  ///< devices first, in their order
  std::vector<Link> links;       ///< lanes are assigned by Topology
  bool operator==(const TopologyParts&) const = default;
};

/// Devices and what connects them. Immutable; all members are safe to call from several threads, copies share
/// state. Lanes: 0 … num_devices()−1 are the devices' compute lanes, then the links' lanes.
class Topology {
 public:
  /// InputError when names repeat, figures are out of range (see checks.h), or some vertex can't reach
  /// another.
  explicit Topology(TopologyParts parts);

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const TopologyParts& parts() const;
  [[nodiscard]] std::size_t num_devices() const;
  [[nodiscard]] std::size_t num_nodes() const;
  [[nodiscard]] std::size_t num_lanes() const;
  [[nodiscard]] const Device& device(DeviceId id) const;
  [[nodiscard]] const DeviceKind& kind(DeviceId id) const;
  /// The part of a device's memory that plans may use: what frameworks leave (MemoryOverhead), less the
  /// margin. It is less with every communicator that the plan needs there; with many it may be negative.
  [[nodiscard]] Bytes usable_memory(DeviceId id, std::int32_t communicators) const;
  /// Without communicators: no plan can use more.
  [[nodiscard]] Bytes usable_memory(DeviceId id) const { return usable_memory(id, 0); }
  [[nodiscard]] Bytes usable_memory() const;  ///< of all devices together
  [[nodiscard]] const MemoryMargin& memory_margin() const { return margin_; }
  /// The same topology with another memory margin. InputError when the margin leaves nothing of a device's
  /// memory.
  [[nodiscard]] Topology with_memory_margin(const MemoryMargin& margin) const;
  /// Where there is a single node, "node0.gpu3" and "gpu3" are the same device. InputError: `unknown device
  /// "gpu9" (topology "dgx-8" has gpu0..gpu7)`, with a suggestion.
  [[nodiscard]] DeviceId device_named(std::string_view name) const;
  [[nodiscard]] std::optional<DeviceId> find_device(std::string_view name) const;
  [[nodiscard]] std::span<const DeviceId> devices_of_node(std::int32_t node) const;

  [[nodiscard]] LaneId compute_lane(DeviceId id) const { return LaneId(id.value); }
  [[nodiscard]] std::string lane_name(LaneId lane) const;  ///< "node0.gpu3" or "node0.gpu3 -> node0.nvswitch"
  [[nodiscard]] BytesPerSecond lane_bandwidth(LaneId lane) const;  ///< of a link's lane

  /// The route with the least Σ (latency + 1 MB / bandwidth), in picoseconds. Ties go to the route with the
  /// lowest last lane, then the lowest lane before it, and so on. Devices forward data only where there is no
  /// other route. `from` ≠ `to`, else InternalError.
  [[nodiscard]] Route route(DeviceId from, DeviceId to) const;
  /// 0: same device, 1: same node, 2: other node. What redistribution calls the route class.
  [[nodiscard]] int distance(DeviceId from, DeviceId to) const;

  /// 16 hex digits over everything that changes a simulation: not the topology's name, nor any source, nor
  /// the margin and what frameworks take.
  [[nodiscard]] std::string fingerprint() const;
  bool operator==(const Topology& o) const { return parts() == o.parts() && margin_ == o.margin_; }

 private:
  struct State;
  std::shared_ptr<const State> state_;
  MemoryMargin margin_;
};

}  // namespace pipesim
