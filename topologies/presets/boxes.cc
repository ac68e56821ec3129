#include "topologies/presets/boxes.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "topologies/cube_mesh.h"
#include "topologies/device_kinds.h"

namespace pipesim {

namespace {

constexpr Cable cable(double gigabytes_per_second, double microseconds) {
  // Divided, which rounds once, as a file's "0.5 us" is.
  return {BytesPerSecond(gigabytes_per_second * 1e9), Seconds(microseconds / 1e6), true};
}

// Bandwidths are what software reaches, mostly as NCCL counts them (src/graph/topo.h); the specified rate is
// named. Latencies are those of small messages: 1.0 µs a step over NVLink and NVSwitch, on Hopper 0.75 and on
// Blackwell 1.2 µs (slope over the number of steps of NCCL all-reduces of 512 bytes on 2, 4, 8 A100, H100
// and B200, ai-dynamo/aiconfigurator), 1.0 µs over PCIe
// and 2.7 µs over InfiniBand (NCCL src/graph/tuning.cc, LL), shared among the links of a step. Ethernet here
// means TCP through the kernel, for which 25 µs a message is an estimate.

// NVLink 1, 20 GB/s a link and direction; NCCL SM60_NVLINK_BW.
constexpr Cable kNvlink1 = cable(18, 1.0);
// NVLink 2, 25 GB/s; 22.55 GB/s measured by NCCL on a pair with one link, 134.5 on the 8 GPUs' six rings
// (VIA-Research/vTrain, trace/v100), both with the time in which a device copies its own part. NCCL's own
// SM70_NVLINK_BW is 20.
constexpr double kNvlink2 = 23.5;
// NVSwitch boxes: links of a GPU together. 6 × 20 of 6 × 25 GB/s (NCCL SM70_NVLINK_BW).
constexpr Cable kNvswitchV100 = cable(120, 0.5);
// 12 × 25 GB/s; NCCL counts 12 × 20 (SM80_NVLINK_BW), all-reduces reach 229-231 (vTrain trace/a100;
// NVIDIA/nccl#527).
constexpr Cable kNvswitchA100 = cable(230, 0.5);
// 18 × 25 GB/s; 18 × 20.6 (NCCL SM90_NVLINK_BW); rings reach 361-367 on H200 (stas00/ml-engineering,
// network).
constexpr Cable kNvswitchH100 = cable(370.8, 0.375);

// 8 × 25 GB/s, 8 of H100's 18 links; NCCL counts them as on H100. DeepSeek-AI say 160 GB/s reached
// (Insights into DeepSeek-V3, ISCA 2025).
constexpr Cable kNvswitchH800 = cable(164.8, 0.375);
// 18 × 50 GB/s; 18 × 40.1 (NCCL SM100_NVLINK_BW).
constexpr Cable kNvswitchB200 = cable(721.8, 0.6);

// PCIe x16: 15.75 GB/s (3.0), 31.5 (4.0), 63 (5.0), 126 (6.0); NCCL PCI_BW and its multiples.
constexpr Cable kPcie3 = cable(12, 0.5), kPcie4 = cable(24, 0.5), kPcie5 = cable(48, 0.5),
                kPcie6 = cable(96, 0.5);
// Between the sockets of Broadwell Xeons; NCCL BDW_QPI_BW.
constexpr Cable kQpi = cable(6, 0.5);

// 12.5 GB/s per 100 Gb/s, of which NCCL counts 12 (NET_BW).
constexpr Cable kInfiniband100 = cable(12, 1.35), kInfiniband200 = cable(24, 1.35),
                kInfiniband400 = cable(48, 1.35), kInfiniband800 = cable(96, 1.35);
// FDR: 56 Gb/s less 64b/66b coding is 6.79 GB/s, times the same 12 / 12.5.
constexpr Cable kInfiniband56 = cable(6.5, 1.35);
// 3.125 GB/s, of which TCP reaches 0.75 to 0.92; the middle is taken.
constexpr Cable kEthernet25 = cable(2.6, 12.5);
// 1.25 GB/s; one TCP stream fills it up to framing (9.4 Gb/s is usual).
constexpr Cable kEthernet10 = cable(1.15, 12.5);

class Box {
 public:
  Box(TopologyDraft& draft, const BoxPlace& place) : draft_(draft), place_(place) {}

  void add_gpus(std::int32_t count, std::string_view kind_name) {
    const std::int32_t kind = draft_.kind(*find_built_in_device_kind(kind_name));
    for (std::int32_t i = 0; i < count; ++i)
      gpus_.push_back(draft_.add_device(fmt::format("{}gpu{}", place_.prefix, i), kind, place_.node));
  }

  [[nodiscard]] DraftVertex gpu(std::size_t i) const { return gpus_[i]; }
  [[nodiscard]] std::size_t num_gpus() const { return gpus_.size(); }

  DraftVertex add_switch(std::string_view name) {
    return draft_.add_switch(place_.prefix + std::string(name), place_.node);
  }

  void connect(DraftVertex a, DraftVertex b, Cable cable) { draft_.connect(a, b, cable); }

  void connect_gpus(DraftVertex hub, Cable cable, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) connect(gpus_[i], hub, cable);
  }
  void connect_all_gpus(DraftVertex hub, Cable cable) { connect_gpus(hub, cable, 0, gpus_.size()); }

  // A NIC that sits at `at` and leads to the network; nothing when there is no network.
  void add_nic(std::size_t number, DraftVertex at, Cable bus, Cable network) {
    if (place_.network.empty()) return;
    const DraftVertex nic = draft_.add_nic(fmt::format("{}nic{}", place_.prefix, number), place_.node);
    connect(at, nic, bus);
    connect(nic, place_.network[number % place_.network.size()], network);
  }

 private:
  TopologyDraft& draft_;
  const BoxPlace& place_;
  std::vector<DraftVertex> gpus_;
};

void connect_cube_mesh(Box& box) {
  for (const auto [a, b, links] : kCubeMesh)
    box.connect(box.gpu(a), box.gpu(b), cable(kNvlink2 * links, 1.0));
}

// The rest of a DGX-1: two sockets with two PCIe switches each, two GPUs a switch.
struct PcieTree {
  std::array<DraftVertex, 2> cpus;
  std::array<DraftVertex, 4> switches;
};

PcieTree add_dgx1_pcie(Box& box) {
  PcieTree tree;
  for (std::size_t c = 0; c < 2; ++c) tree.cpus[c] = box.add_switch(fmt::format("cpu{}", c));
  box.connect(tree.cpus[0], tree.cpus[1], kQpi);
  for (std::size_t s = 0; s < 4; ++s) {
    tree.switches[s] = box.add_switch(fmt::format("pcie{}", s));
    box.connect(tree.switches[s], tree.cpus[s / 2], kPcie3);
    box.connect_gpus(tree.switches[s], kPcie3, 2 * s, 2);
  }
  return tree;
}

void add_single_v100_box(TopologyDraft& draft, const BoxPlace& place, Cable network) {
  Box box(draft, place);
  box.add_gpus(1, "V100-SXM2-16GB");
  box.add_nic(0, box.gpu(0), kPcie3, network);
}

// NVSwitch boxes since A100: as many NICs as GPUs, and NIC i serves GPU i, whose PCIe switch it shares.
void add_railed_box(TopologyDraft& draft, const BoxPlace& place, std::string_view kind, Cable nvswitch,
                    Cable bus, Cable network, std::int32_t gpus = 8) {
  Box box(draft, place);
  box.add_gpus(place.gpus > 0 ? place.gpus : gpus, kind);
  box.connect_all_gpus(box.add_switch("nvswitch"), nvswitch);
  for (std::size_t i = 0; i < box.num_gpus(); ++i) box.add_nic(i, box.gpu(i), bus, network);
}

// NVSwitch boxes with two GPUs and a NIC of 100 Gb/s a PCIe switch. The switches' way to the CPUs is left
// out: with NVSwitch nothing takes it.
void add_paired_box(TopologyDraft& draft, const BoxPlace& place, std::int32_t gpus, std::string_view kind,
                    Cable nvswitch, Cable bus) {
  Box box(draft, place);
  box.add_gpus(gpus, kind);
  box.connect_all_gpus(box.add_switch("nvswitch"), nvswitch);
  for (std::size_t s = 0; s < box.num_gpus() / 2; ++s) {
    const DraftVertex pcie = box.add_switch(fmt::format("pcie{}", s));
    box.connect_gpus(pcie, bus, 2 * s, 2);
    box.add_nic(s, pcie, bus, kInfiniband100);
  }
}

}  // namespace

// Every pair by one of a GPU's four NVLinks. The fourth link is left out: the paper does not say where it
// goes.
void add_p100_box(TopologyDraft& draft, const BoxPlace& place) {
  Box box(draft, place);
  box.add_gpus(4, "P100-SXM2");
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = a + 1; b < 4; ++b) box.connect(box.gpu(a), box.gpu(b), kNvlink1);
  const DraftVertex pcie = box.add_switch("pcie");
  box.connect_all_gpus(pcie, kPcie3);
  box.add_nic(0, pcie, kPcie3, kInfiniband100);
}

// Adjacent GPUs (the two of a board) have a PCIe switch of their own, all share another.
void add_k80_box(TopologyDraft& draft, const BoxPlace& place) {
  Box box(draft, place);
  box.add_gpus(4, "K80");
  const DraftVertex shared = box.add_switch("pcie");
  for (std::size_t board = 0; board < 2; ++board) {
    const DraftVertex pair = box.add_switch(fmt::format("board{}", board));
    box.connect_gpus(pair, kPcie3, 2 * board, 2);
    box.connect(pair, shared, kPcie3);
  }
  box.add_nic(0, shared, kPcie3, kInfiniband56);
}

// "8 V100 with NVLink" is taken to be the cube mesh, the only way that 8 such GPUs were sold with direct
// NVLinks.
void add_dapple_a_box(TopologyDraft& draft, const BoxPlace& place) {
  Box box(draft, place);
  box.add_gpus(8, "V100-SXM2-16GB");
  connect_cube_mesh(box);
  box.add_nic(0, add_dgx1_pcie(box).cpus[0], kPcie3, kEthernet25);
}

void add_dapple_b_box(TopologyDraft& draft, const BoxPlace& place) {
  add_single_v100_box(draft, place, kEthernet25);
}

void add_dapple_c_box(TopologyDraft& draft, const BoxPlace& place) {
  add_single_v100_box(draft, place, kEthernet10);
}

void add_dgx1_v100_box(TopologyDraft& draft, const BoxPlace& place) {
  Box box(draft, place);
  box.add_gpus(8, "V100-SXM2-16GB");
  connect_cube_mesh(box);
  const PcieTree tree = add_dgx1_pcie(box);
  for (std::size_t s = 0; s < 4; ++s) box.add_nic(s, tree.switches[s], kPcie3, kInfiniband100);
}

// `nvidia-smi topo -m` in NVIDIA/nccl-tests#78: PIX.
void add_dgx2_box(TopologyDraft& draft, const BoxPlace& place) {
  add_paired_box(draft, place, 16, "V100-SXM2-32GB", kNvswitchV100, kPcie3);
}

void add_dgx_a100_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "A100-80GB", kNvswitchA100, kPcie4, kInfiniband200);
}

void add_roce_a100_box(TopologyDraft& draft, const BoxPlace& place) {
  add_paired_box(draft, place, 8, "A100-80GB", kNvswitchA100, kPcie4);
}

void add_dgx_h100_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "H100-SXM5", kNvswitchH100, kPcie5, kInfiniband400);
}

void add_grand_teton_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "H100-500W", kNvswitchH100, kPcie5, kInfiniband400);
}

void add_hgx_h800_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "H800", kNvswitchH800, kPcie5, kInfiniband400);
}

void add_dgx_b200_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "B200", kNvswitchB200, kPcie5, kInfiniband400);
}

// NICs are on the CPUs' PCIe; the way from a GPU to its CPU, 450 GB/s, is left out.
void add_nvl72_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "GB200", kNvswitchB200, kPcie5, kInfiniband400, 72);
}

// Blackwell Ultra has the NVLinks of Blackwell, and a ConnectX-8 with a PCIe switch of its own beside each
// GPU.
void add_dgx_b300_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "B300", kNvswitchB200, kPcie6, kInfiniband800);
}

void add_nvl72_ultra_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "GB300", kNvswitchB200, kPcie6, kInfiniband800, 72);
}

void add_hgx_h200_box(TopologyDraft& draft, const BoxPlace& place) {
  add_railed_box(draft, place, "H200", kNvswitchH100, kPcie5, kInfiniband400);
}

void add_pcie_v100_box(TopologyDraft& draft, const BoxPlace& place) {
  Box box(draft, place);
  box.add_gpus(4, "V100-PCIe");
  const DraftVertex pcie = box.add_switch("pcie");
  box.connect_all_gpus(pcie, kPcie3);
  box.add_nic(0, pcie, kPcie3, kEthernet10);
}

}  // namespace pipesim
