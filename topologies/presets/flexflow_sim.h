#pragma once

#include "topologies/presets/boxes.h"

namespace pipesim {

/// A node of the machine that FlexFlow's stand-alone simulator assumes: 4 devices, 4 MiB/ms between them, 1
/// MiB/ms to other nodes, no latency. For comparing with published figures of that simulator.
///
/// It measures its kernels on the GPU at hand; here they take 20 µs a launch and then run at 5 TFLOP/s or 500
/// GB/s, whatever their shape. It gives every pair of parts a channel of its own but adds up the weights'
/// synchronisation as if over one link a node, one device after the other; here each device has one cable to
/// its node's switch and the node one cable to the network, which transfers share.
void add_flexflow_sim_box(TopologyDraft& draft, const BoxPlace& place);

}  // namespace pipesim
