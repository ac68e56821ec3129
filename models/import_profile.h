#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/operator_graph.h"

namespace pipesim {

/// Reads a layer profile as PipeDream's profiler writes it (Narayanan et al., SOSP 2019; graph.txt): one line
/// per layer, with times in ms for `profile_batch` samples and sizes in bytes,
///
///   node2 -- Linear(10, 5) -- forward_compute_time=1.5, backward_compute_time=3, activation_size=[8; 12],
///   parameter_size=20
///
/// and one line per edge, `node1 -- node2`. Lists of sizes are summed. Layers become "profiled" operators
/// named "node2 Linear(10, 5)", in a topological order that keeps the file's where it can. The graph runs
/// `batch` samples: times and activations grow with them. InputError `FILE:LINE: …` when the text is not such
/// a profile.
OperatorGraph import_profile(std::string_view text, const std::string& source, std::int64_t profile_batch,
                             std::int64_t batch);

}  // namespace pipesim
