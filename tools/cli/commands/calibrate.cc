#include <fmt/format.h>

#include "sim/base/errors.h"
#include "tools/analysis/inputs/plan_set.h"
#include "tools/cli/base/command.h"
#include "tools/cli/calibrating/calibrate_runs.h"
#include "tools/cli/calibrating/calibrate_trace.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/run_options.h"
#include "tools/cli/options/shared_options.h"

namespace pipesim {
namespace {

int run_calibrate_either(const Arguments& arguments, Streams& streams) {
  if (arguments.has("from-trace")) return run_calibrate_trace(calibrate_command(), arguments, streams);
  for (const char* option : {"recipe", "runtime", "trace", "keep-host"}) {
    if (arguments.given(option)) throw UsageError(fmt::format("calibrate: --{} needs --from-trace", option));
  }
  if (arguments.has("runs")) return run_calibrate_runs(arguments, streams);
  for (const char* option : {"most-runs", "suggest"}) {
    if (arguments.given(option)) throw UsageError(fmt::format("calibrate: --{} needs --runs", option));
  }
  return run_calibrate(arguments, streams);
}

}  // namespace

Command calibrate_command() {
  Command c;
  c.name = "calibrate";
  c.summary = "measure what operators and transfers take on this machine";
  c.description =
      "Runs the baselines, random strategies, and the plans that --plan names, one after the other. It "
      "measures their operators, transfers and weight updates, and writes the durations to a file for "
      "--calibration.\n\nKernels are measured as plans run them: in the same shapes and order, with the same "
      "caches, transfers and busy neighbours. Alone they would be faster.\n\nAn existing file is added to. "
      "Samples in which the system took the processor away are dropped. Where that leaves no sample of a "
      "duration, the file stays as it is and the duration is named. At the end one plan is run once more and "
      "predicted from what was measured. If it is further off than --tolerance, up to three times, nothing "
      "is "
      "written: the machine was busy, then or now.\n\nWith --fit, four more random "
      "strategies are run and predicted from the file. Durations that had to be estimated from other sizes "
      "are compared with what was measured; a factor and an overhead for each class of tasks (forward "
      "passes, all-reduces, …) are fitted and kept in the file.\n\nWith --runs nothing is run here. A few "
      "constants of a cluster are fitted to runs that were made there, and written to a JSON file, which "
      "--calibration takes instead of an SQLite file or beside one (FILE,FILE).\n\nWith --from-trace nothing "
      "is run either. Traces of PyTorch's profiler or of Nsight Systems tell what operators take by shape, "
      "how long the host takes to launch them, alpha and beta of process groups, what communication slows "
      "down, and how much of it is exposed. With --model, --topology and --recipe, a predicted step stands "
      "beside the measured one.";
  c.options = model_and_topology_options();
  for (Option& o : calibrate_runs_options()) c.options.push_back(std::move(o));
  for (Option& o : calibrate_trace_options()) c.options.push_back(std::move(o));
  for (Option& o :
       in_group(OptionGroup::Output, {{"output", "FILE", "", "where to write it", 'o'}, json_option()}))
    c.options.push_back(std::move(o));
  for (Option& o : plan_set_options("run", "16")) c.options.push_back(std::move(o));
  for (Option& o :
       in_group(OptionGroup::Execution,
                {{"no-baselines", "", "", "do not run the baselines"},
                 {"fit", "", "", "correct durations that are estimated from other sizes"},
                 {"tolerance", "PERCENT", "25", "write nothing if a plan that is run again is further off"}}))
    c.options.push_back(std::move(o));
  for (Option& o : plan_options()) c.options.push_back(std::move(o));
  for (Option& o : run_options("40")) c.options.push_back(std::move(o));
  c.common = {"model", "topology", "output", "plan", "fit", "backend", "runs", "from-trace"};
  c.examples = {
      {"pipesim calibrate --model lenet:batch=32 --topology cpu:2 -o lenet.db",
       "measure on two cores of this machine"},
      {"pipesim calibrate --model lenet:batch=32 --topology cpu:2 -o lenet.db --plan lenet.plan.json --fit",
       "add the durations of a plan, and correct estimates"},
      {"pipesim calibrate --runs docs/examples/pytorch_h100.csv -o h100.constants.json",
       "fit a few constants to runs of a cluster"},
      {"pipesim calibrate --from-trace docs/examples/pytorch_h100.trace.json.gz",
       "what a trace of PyTorch's profiler tells"}};
  c.run = run_calibrate_either;
  return c;
}

}  // namespace pipesim
