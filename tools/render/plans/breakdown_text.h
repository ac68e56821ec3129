#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/analysis/plans/breakdown/exposed_communication.h"
#include "tools/analysis/plans/breakdown/iteration_parts.h"
#include "tools/analysis/plans/breakdown/memory_by_stage.h"

namespace pipesim {

/// "9.1 s (14.6 %): sequence 8 s, pipeline 1.1 s", of these seconds by cause; causes without time are left
/// out. `whole`: seconds of the iteration.
std::string causes_text(const ByCause<double>& seconds, double all, double whole);

/// An object with the members mean and most_exposed, each with exposed_s, hidden_s and by_cause; most_exposed
/// names its device.
nlohmann::ordered_json json_of(const std::vector<CommunicationTime>& times,
                               const std::vector<Nanoseconds>& compute, const Topology& topology);

/// Why the second iteration is shorter, in one clause: "because devices idle 5.1 s less (9.1 % of the
/// iteration instead of 16.0 %) and 3 s less of tensor communication is exposed, although 0.4 s more is
/// computed again". Parts with less than a tenth of the difference are left out. "" where the second is not
/// shorter.
std::string because(const IterationParts& before, const IterationParts& after);

/// A JSON object with a member for each part.
nlohmann::ordered_json json_of(const IterationParts& parts);

/// A table with a row for each category that any of them holds; of kinds of which it is known
/// (MemoryOverhead) also what an allocator reserves, what communicators take, with their number, and the sum
/// of both and the context; and a column for each stage. Of more than eight only the first, the fullest and
/// the last have one.
std::string memory_table(const std::vector<StageMemory>& stages, const Topology& topology);

/// An array of objects with stages, device, peak_bytes, communicators (their number), communicators_bytes,
/// reserved_bytes (what an allocator holds for the peak), process_bytes (that, communicators and the
/// context), and at_peak_bytes, which has a member for each category.
nlohmann::ordered_json json_of(const std::vector<StageMemory>& stages, const Topology& topology);

}  // namespace pipesim
