#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/analysis/whatif/axis.h"
#include "tools/cli/base/arguments.h"

namespace pipesim {

/// Something that a study can vary.
struct VariedFigure {
  std::string path, now, takes;
};

/// The arguments with one figure changed: PATH=VALUE as --vary has them.
///
/// - `nodes`, `gpus`, `network`, …: of the preset of --topology; `topology`: another text.
/// - figures of the topology (topologies/changes/topology_changes.h).
/// - `model.KEY`: an option of a zoo model or a size of a model's file; `model`: another one.
/// - `batch` (or `model.batch`): samples of an iteration.
/// - `recipe.PART`: a part of --recipe; `recipe`: another one.
/// - `runtime.KEY`: a figure of --runtime; `runtime`: another one.
/// - any of kVariedOptions.
///
/// A recipe's dp follows from the number of devices unless `recipe.dp` is varied. A path must pass
/// require_varied(); a bad value may be found only when the arguments are used.
Arguments varied(const Arguments& arguments, const std::string& path, const std::string& value);

/// All of a point's values, in an order in which none undoes another.
Arguments varied(const Arguments& arguments, const std::vector<StudyAxis>& axes,
                 const std::vector<std::size_t>& at);

/// Returns arguments in which a model or topology that only axes give has the first value of its axis.
Arguments with_first_values(const Arguments& arguments, const std::vector<StudyAxis>& axes);

/// InputError where there is no such figure, with near ones. Opens the topology, so ask once for a study.
void require_varied(const Arguments& arguments, const std::string& path);

/// What can be varied of this model and topology, with present values.
std::vector<VariedFigure> varied_figures(const Arguments& arguments);

}  // namespace pipesim
