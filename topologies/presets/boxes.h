#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/topology_draft.h"

namespace pipesim {

/// Where a box (one server, or one rack that NVLink joins) is built: its node, the prefix of its names
/// ("node3." or ""), how many GPUs it has (0: all), and the switches of the network between the boxes. NIC i
/// is on switch i modulo their number; without any, a box is built without NICs.
struct BoxPlace {
  std::int32_t node = 0;
  std::string prefix;
  std::int32_t gpus = 0;
  std::vector<DraftVertex> network;
};

/// A box's own wiring, link by link. The figures and their sources are in boxes.cc.
void add_p100_box(TopologyDraft& draft, const BoxPlace& place);  ///< 4 P100-SXM2, NVLink mesh, 1 × 100 Gb/s
void add_k80_box(TopologyDraft& draft, const BoxPlace& place);   ///< 4 K80, PCIe, 1 × 56 Gb/s
void add_dapple_a_box(TopologyDraft& draft, const BoxPlace& place);   ///< 8 V100, cube mesh, 1 × 25 GbE
void add_dapple_b_box(TopologyDraft& draft, const BoxPlace& place);   ///< 1 V100, 1 × 25 GbE
void add_dapple_c_box(TopologyDraft& draft, const BoxPlace& place);   ///< 1 V100, 1 × 10 GbE
void add_dgx1_v100_box(TopologyDraft& draft, const BoxPlace& place);  ///< 8 V100, cube mesh, 4 × 100 Gb/s
void add_dgx2_box(TopologyDraft& draft, const BoxPlace& place);       ///< 16 V100, NVSwitch, 8 × 100 Gb/s
void add_dgx_a100_box(TopologyDraft& draft, const BoxPlace& place);   ///< 8 A100, NVSwitch, 8 × 200 Gb/s
/// 8 A100, NVSwitch, 4 × 100 Gb/s, two GPUs a NIC
void add_roce_a100_box(TopologyDraft& draft, const BoxPlace& place);
void add_dgx_h100_box(TopologyDraft& draft, const BoxPlace& place);  ///< 8 H100, NVSwitch, 8 × 400 Gb/s
/// 8 H100 with 96 GB and 500 W, NVSwitch, 8 × 400 Gb/s
void add_grand_teton_box(TopologyDraft& draft, const BoxPlace& place);
void add_hgx_h800_box(TopologyDraft& draft, const BoxPlace& place);  ///< 8 H800, NVSwitch, 8 × 400 Gb/s
void add_hgx_h200_box(TopologyDraft& draft, const BoxPlace& place);  ///< 8 H200, NVSwitch, 8 × 400 Gb/s
void add_dgx_b200_box(TopologyDraft& draft, const BoxPlace& place);  ///< 8 B200, NVSwitch, 8 × 400 Gb/s
void add_nvl72_box(TopologyDraft& draft, const BoxPlace& place);     ///< 72 GB200, NVSwitch, 72 × 400 Gb/s
void add_dgx_b300_box(TopologyDraft& draft, const BoxPlace& place);  ///< 8 B300, NVSwitch, 8 × 800 Gb/s
void add_nvl72_ultra_box(TopologyDraft& draft, const BoxPlace& place);  ///< 72 GB300, NVSwitch, 72 × 800 Gb/s
void add_pcie_v100_box(TopologyDraft& draft, const BoxPlace& place);    ///< 4 V100-PCIe, 1 × 10 GbE

}  // namespace pipesim
