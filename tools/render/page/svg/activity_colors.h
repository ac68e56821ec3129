#pragma once

#include <array>
#include <string_view>

#include "taskgraph/expansion/task_graph.h"

namespace pipesim {

/// What tasks do, as pictures show it: some kinds of tasks share a color. Colors are those of web/report,
/// after Okabe and Ito, and Tol.
struct DrawnActivity {
  std::string_view color, label;
};

inline constexpr std::array<DrawnActivity, 11> kDrawnActivities{{{"#0072b2", "forward"},
                                                                 {"#e69f00", "backward"},
                                                                 {"#d55e00", "gradients of weights"},
                                                                 {"#cc79a7", "recompute"},
                                                                 {"#009e73", "update"},
                                                                 {"#56b4e9", "moves activations"},
                                                                 {"#c8b400", "moves gradients"},
                                                                 {"#2f8f86", "adds gradients of weights"},
                                                                 {"#882255", "gathers weights"},
                                                                 {"#8c8c8c", "inside operators"},
                                                                 {"#4d4d4d", "host, interference"}}};

/// Index into kDrawnActivities.
std::size_t activity_of(TaskKind kind);

/// Colors of lines and of categories of memory, in their order.
inline constexpr std::array<std::string_view, 8> kSeriesColors{"#0072b2", "#d55e00", "#882255", "#56b4e9",
                                                               "#c8b400", "#e69f00", "#cc79a7", "#2f8f86"};

}  // namespace pipesim
