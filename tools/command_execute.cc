#include <fmt/format.h>

#include <ostream>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/commands.h"
#include "tools/plan_run.h"

namespace pipesim {
namespace {

RunSetting setting_of(const Arguments& a, const Topology& topology) {
  RunSetting s = run_setting_of(a, topology);
  if (a.given("check")) s.checked_steps = a.integer("check-steps", 1, 1000);
  if (a.given("check-steps") && !a.given("check")) throw UsageError("execute: --check-steps needs --check");
  if (s.emulated && a.given("check"))
    throw UsageError("execute: --check needs --backend cpu: emulated devices compute nothing");
  if (s.gpus && s.gpus->recorded && a.has("trace"))
    throw UsageError("execute: --trace needs times of single tasks, which --recorded does not have");
  return s;
}

int run_execute(const Arguments& arguments, Streams& streams) {
  if (arguments.has("trace")) require_writable(arguments.text("trace"));
  const Subject subject = subject_of("execute", arguments, streams.err);
  const RunSetting setting = setting_of(arguments, subject.topology);
  const std::unique_ptr<DeviceWorlds> open = open_worlds(setting, subject.topology);
  DeviceWorlds& worlds = *open;
  require_cores(subject.plan.strategy, setting, worlds);
  PlanRun run(subject, setting, worlds);
  run.warn_of_share(streams.err);
  const ExecutionReport report = run.report(streams.err);
  if (arguments.has("trace") && worlds.rank() == 0) run.write_trace(arguments.text("trace"));
  if (worlds.rank() == 0)
    streams.out << (arguments.given("json") ? to_json(report, subject) : to_text(report, subject));
  for (const StepEquality& e : report.equalities) {
    if (e.compared == 0)
      throw DeviceError(
          "nothing can be compared with the unsplit model: all tensors hold rounding errors only, or no "
          "numbers; a larger batch or a smaller --learning-rate may help");
    if (!UnsplitReference::equal(e))
      throw DeviceError(
          fmt::format("the plan does not compute what the unsplit model does: {} differs by {:.3g}, rounding "
                      "alone makes {:.3g}",
                      e.worst.name, e.worst.error, e.noise));
  }
  return 0;
}

}  // namespace

Command execute_command() {
  Command c;
  c.name = "execute";
  c.summary = "run training steps of a plan, measured beside predicted";
  c.description =
      "Runs the tasks that simulate predicts, with real tensors: every device of the topology is a thread, "
      "or belongs to "
      "one of the processes that mpirun has started (mpirun -np 4 pipesim execute …), each of which takes "
      "its share of "
      "the devices in order. Data and initial weights are made from the seed, unless --data names a file of "
      "numbers "
      "for a data tensor: sample after sample, row-major, without a header, from the OFFSETth number on.\n\n"
      "With --check the unsplit model runs beside the plan from the same seed; results, gradients and "
      "updated weights must each agree within 4 times what rounding does to it in the unsplit model, which "
      "is "
      "measured by forming all sums in three other orders and, where 16 bits are kept, rounding "
      "otherwise.\n\n"
      "Iterations during which the system took a core away are counted and left out. On a host that is not "
      "quiet no error "
      "of the prediction is given.\n\n"
      "With --backend cuda the devices are GPUs of NVIDIA, or with --virtual-devices equal parts of one; "
      "processes are those of mpirun, torchrun or srun. Times are then the GPU's, and a missing driver ends "
      "with exit status 3. Between virtual devices, --emulate-links lets transfers and collectives take at "
      "least the time of the topology's links.\n\n"
      "Emulated devices take as long as predicted and compute nothing: they test order and messages of plans "
      "for any "
      "number of devices, and show what a slow device does.";
  c.options = subject_options("execute");
  for (Option& o : std::vector<Option>{
           {"check", "", "", "compare with the unsplit model first"},
           {"check-steps", "N", "3", "for so many steps"},
           {"trace", "FILE", "", "write predicted and measured timelines for ui.perfetto.dev"},
           {"json", "", "", "print one JSON object instead of text"}})
    c.options.push_back(std::move(o));
  for (Option& o : run_options()) c.options.push_back(std::move(o));
  c.examples = {
      {"pipesim execute --model lenet:batch=32 --topology cpu:2 --baseline data-parallel --check",
       "does it compute the same?"},
      {"pipesim execute --plan plan.json --backend emulated --slow gpu3=1.5", "what does a straggler cost?"}};
  c.run = run_execute;
  return c;
}

}  // namespace pipesim
