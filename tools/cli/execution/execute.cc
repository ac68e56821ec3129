#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/execution/run_setting_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/options/subject_options.h"
#include "tools/render/execution/execution_report_text.h"
#include "tools/running/plan_run.h"

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

// What the command line asks for.
struct ExecuteRun {
  Subject subject;
  RunSetting setting;
  std::string trace;  // a file; "": none
  bool json;
};

ExecuteRun execute_run_of(const Arguments& a, std::ostream& err) {
  if (a.has("trace")) require_writable(a.text("trace"));
  Subject subject = subject_of("execute", a, err);
  RunSetting setting = setting_of(a, subject.topology);
  return {std::move(subject), std::move(setting), text_or_none(a, "trace"), a.given("json")};
}

}  // namespace

int run_execute(const Arguments& arguments, Streams& streams) {
  const ExecuteRun asked = execute_run_of(arguments, streams.err);
  const Subject& subject = asked.subject;
  const std::unique_ptr<DeviceWorlds> open = open_worlds(asked.setting, subject.topology);
  DeviceWorlds& worlds = *open;
  require_cores(subject.plan.strategy, asked.setting, worlds);
  PlanRun run(subject, asked.setting, worlds);
  run.warn_of_share(streams.err);
  StatusLine progress(streams.err);
  const ExecutionReport report = run.report(&progress);
  if (!asked.trace.empty() && worlds.rank() == 0) run.write_trace(asked.trace);
  if (worlds.rank() == 0 && asked.json) give_document(streams, json_of(report, subject));
  if (worlds.rank() == 0 && !asked.json) streams.out << to_text(report, subject);
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

}  // namespace pipesim
