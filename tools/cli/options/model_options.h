#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/recipes/recipe.h"
#include "tools/analysis/inputs/model_run.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/cli/base/arguments.h"
#include "topologies/topology.h"

namespace pipesim {

// Options that say what is planned or simulated: a model, its samples, a topology, and what runs it there.

/// --model, --set and --topology.
std::vector<Option> model_and_topology_options();
Option topology_option();
/// --set, which goes with a model.
Option set_option();
/// The model of --model, with the sizes of --set, as the framework of --for runs it on --topology. UsageError
/// when --model was not given.
std::string model_text_of(const Arguments& arguments);
/// A sentence about what users of the framework may not expect of that model; "": none.
std::string model_note_of(const Arguments& arguments);
/// --memory-margin, which goes with --topology.
Option memory_margin_option();
/// Opens a topology by its text, with --memory-margin. UsageError when the margin can't be read; InputError
/// when it leaves nothing of a device's memory.
Topology topology_of(const Arguments& arguments, const std::string& text);
/// The topology of --topology, which must be given.
Topology topology_of(const Arguments& arguments);
/// --microbatches, by default `microbatches` ("": none).
Option microbatches_option(const std::string& microbatches);
/// The model and microbatches that a recipe gives together with --model, --batch, --microbatch and
/// --microbatches; completes the recipe. `runtime`: what runs it, which says how tokens go to experts.
ModelRun recipe_run_of(const Arguments& arguments, const Topology& topology, const Runtime& runtime,
                       Recipe& recipe);
/// --calibration FILE, for search, simulate and compare.
Option calibration_option();
/// --runtime NAME[:KEY=VALUE,…], for search, simulate and compare.
Option runtime_option();
/// The runtime of --runtime; pipesim's own without it, and where a command has no such option.
Runtime runtime_of(const Arguments& arguments);
/// The runtime of --runtime; without it that of runtime_for_recipes(), for the framework of --for.
Runtime runtime_of_recipes(const Arguments& arguments, const Topology& topology);
/// --tokens: "15T", "300B", or a plain number. UsageError otherwise.
double tokens_of(const Arguments& arguments);
/// --batch, --microbatch and --profile-batch, see ModelRun.
std::vector<Option> batch_options();
/// The model and microbatches that --model, --microbatches and batch_options() give together. UsageError when
/// they contradict each other; InputError when the model's batch can't be chosen.
ModelRun model_run_of(const Arguments& arguments);
/// UsageError when a plan can't have this many.
std::int32_t microbatches_of(const ModelRun& run);
/// profile_note() of --model; "" when --profile-batch is given.
std::string profile_note_of(const Arguments& arguments);

}  // namespace pipesim
