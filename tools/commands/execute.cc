#include "tools/cli/command.h"
#include "tools/commands/execution_commands.h"
#include "tools/commands/options/run_options.h"
#include "tools/commands/options/shared_options.h"
#include "tools/commands/options/subject_options.h"
#include "tools/inputs/subject.h"

namespace pipesim {

Command execute_command() {
  Command c;
  c.name = "execute";
  c.summary = "run training steps of a plan, measured beside predicted";
  c.description =
      "Runs the tasks that simulate predicts, with real tensors: every device of the topology is a thread, "
      "or "
      "belongs to one of the processes that mpirun has started.\n\n"
      "Each of these processes (mpirun -np 4 pipesim execute …) takes its share of the devices in order. "
      "Data "
      "and initial weights are made from the seed, unless --data names a file of numbers for a data tensor: "
      "sample after sample, row-major, without a header, from the OFFSETth number on.\n\n"
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
  for (Option& o :
       in_group(OptionGroup::Execution, {{"check", "", "", "compare with the unsplit model first"},
                                         {"check-steps", "N", "3", "for so many steps"}}))
    c.options.push_back(std::move(o));
  for (Option& o :
       in_group(OptionGroup::Output,
                {{"trace", "FILE", "", "write both timelines, for ui.perfetto.dev"}, json_option()}))
    c.options.push_back(std::move(o));
  for (Option& o : run_options()) c.options.push_back(std::move(o));
  c.common = {"plan", "baseline", "model", "topology", "backend", "check", "trace", "json"};
  c.examples = {{"pipesim execute --model lenet:batch=32 --topology cpu:2 --baseline data-parallel --check",
                 "does it compute the same?"},
                {"pipesim execute --plan nmt.plan.json --backend emulated --slow node0.gpu3=1.5",
                 "what does a straggler cost?"}};
  c.run = run_execute;
  return c;
}

}  // namespace pipesim
