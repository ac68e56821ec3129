#include "tools/analysis/inputs/subject.h"
#include "tools/cli/base/command.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/options/run_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/options/subject_options.h"

namespace pipesim {

Command execute_command() {
  Command c;
  c.name = "execute";
  c.summary = "run training steps of a plan, measured beside predicted";
  c.description =
      "Runs the tasks that simulate predicts, with real tensors. Every device of the topology is a thread. "
      "Under mpirun (mpirun -np 4 pipesim execute …) each process takes its share of the devices, in "
      "order.\n\nData and initial weights are made from the seed. --data reads a data tensor from a file "
      "instead: plain numbers without a header, sample after sample, row-major, beginning with number "
      "OFFSET.\n\nWith --check the unsplit model runs too, from the same seed. Results, gradients and "
      "updated weights of the plan must agree with it within 4 times the effect of rounding. That effect is "
      "measured on the unsplit model by adding up all sums in three other orders, and, for 16-bit types, by "
      "other rounding.\n\nIterations in which the system took a core away are counted and left out. Where "
      "the host is not quiet, no prediction error is reported.\n\nWith --backend cuda the devices are NVIDIA "
      "GPUs, or, with --virtual-devices, equal parts of one GPU. Processes may come from mpirun, torchrun or "
      "srun. Times are measured on the GPU. Without a driver the exit status is 3. --emulate-links makes "
      "transfers and collectives between virtual devices take at least as long as on the topology's "
      "links.\n\nEmulated devices take as long as predicted and compute nothing. They test the order and the "
      "messages of plans for any number of devices, and show the effect of a slow device.";
  c.options = subject_options("execute");
  for (Option& o :
       in_group(OptionGroup::Execution, {{"check", "", "", "compare with the unsplit model first"},
                                         {"check-steps", "N", "3", "steps to compare"}}))
    c.options.push_back(std::move(o));
  for (Option& o :
       in_group(OptionGroup::Output,
                {{"trace", "FILE", "", "write both timelines, which report draws"}, json_option()}))
    c.options.push_back(std::move(o));
  for (Option& o : run_options()) c.options.push_back(std::move(o));
  c.common = {"plan", "recipe", "baseline", "model", "topology", "backend", "check", "json"};
  c.examples = {{"pipesim execute --model lenet:batch=32 --topology cpu:2 --baseline data-parallel --check",
                 "does it compute the same?"},
                {"pipesim execute --plan nmt.plan.json --backend emulated --slow node0.gpu3=1.5",
                 "what does a straggler cost?"}};
  c.run = run_execute;
  return c;
}

}  // namespace pipesim
