#include "tools/analysis/accuracy/tables/runs_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>

#include "sim/base/rng.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

std::vector<MeasuredRun> read_table(const std::string& text) {
  return runs_of_table(MeasuredTable::parse(text, "runs.csv"));
}

std::string refusal_of_table(const std::string& text) {
  return refusal([&] { (void)read_table(text); });
}

// A row's cells by column.
using Cells = std::map<std::string, std::string>;

std::string quoted(const std::string& cell) { return '"' + cell + '"'; }

std::string table_of_rows(const std::vector<Cells>& rows) {
  std::string text;
  for (const RunsColumn& column : runs_columns()) text += (text.empty() ? "" : ",") + column.name;
  for (const Cells& row : rows) {
    text += "\n";
    for (const RunsColumn& column : runs_columns()) {
      const auto cell = row.find(column.name);
      text +=
          (&column == &runs_columns().front() ? "" : ",") + (cell == row.end() ? "" : quoted(cell->second));
    }
  }
  return text + "\n";
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ";")); }

// What the form says of a run, cell by cell.
Cells cells_of(const MeasuredRun& run) {
  Cells cells{{"name", run.name},
              {"reason", run.reason},
              {"group", joined(run.groups)},
              {"workload", run.workload},
              {"compared_with", run.compared_with}};
  if (run.measured_time.value > 0) cells["time"] = to_text(run.measured_time);
  for (const auto& [name, value] : run.traits)
    cells["traits"] += fmt::format("{}{}={}", cells["traits"].empty() ? "" : ";", name, value);
  if (const auto& c = run.collective) {
    cells.insert({{"devices", c->topology},
                  {"collective", std::string(name_of(c->kind))},
                  {"members", std::to_string(c->devices)},
                  {"size", to_text(c->size)},
                  {"type", c->in_switch ? "bfloat16" : "uint8"}});
  }
  if (const auto& m = run.mixture) {
    cells["product_alone"] = to_text(m->product);
    cells["to_host_alone"] = to_text(m->to_host);
  }
  if (const auto& e = run.run) {
    cells.insert({{"model", e->model},
                  {"devices", e->topology},
                  {"recipe", e->recipe},
                  {"batch", std::to_string(e->batch)},
                  {"runtime", e->runtime},
                  {"status", *run.fitted ? "ok" : "oom"},
                  {"memory", to_text(run.measured_peak)},
                  {"memory_of", e->fullest_peak ? "fullest" : "last"},
                  {"memory_figure", std::array{"allocated", "reserved",
                                               "process"}[static_cast<std::size_t>(e->memory_figure)]},
                  {"time_of", e->post_validation ? "device" : "iteration"},
                  {"state", to_text(run.measured_state)},
                  {"gradient_type", std::string(name_of(e->gradient_type))},
                  {"workspace", to_text(e->workspace)}});
  }
  return cells;
}

MeasuredRun random_run(Rng& rng, std::size_t number) {
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(limit)));
  };
  const auto flip = [&] { return below(2) == 0; };
  MeasuredRun run;
  run.name = fmt::format("row {}", number);
  run.measured_time = Seconds(static_cast<double>(1 + below(1 << 30)) * 1e-7);
  if (number > 0 && flip()) run.compared_with = "row 0";
  for (std::int64_t n = below(3); n > 0; --n) run.groups.push_back(fmt::format("tp {}", below(64)));
  for (std::int64_t n = below(3); n > 0; --n)
    run.traits.emplace_back(fmt::format("t{}", n), static_cast<double>(below(1000)) / 8);
  switch (below(4)) {
    case 0:
      run.reason = "a system that pipesim does not know";
      run.workload = flip() ? "" : "7B on 8 GPUs";
      return run;
    case 1:
      run.collective = ExpressedCollective{"dgx-a100", flip() ? Collective::AllReduce : Collective::AllToAll,
                                           2 + below(6), Bytes(1 + below(1 << 20)), flip()};
      return run;
    case 2:
      run.mixture = ExpressedMixture{.product = Seconds(static_cast<double>(1 + below(1000)) * 1e-5),
                                     .collective = {},
                                     .to_device = {},
                                     .to_host = Seconds(static_cast<double>(1 + below(1000)) * 1e-6)};
      return run;
    default:
      break;
  }
  run.measured_peak = Bytes(1 + below(std::int64_t{1} << 40));
  run.measured_state = Bytes(1 + below(std::int64_t{1} << 40));
  run.fitted = flip();
  run.workload = flip() ? "" : "7B on 8 GPUs";
  run.run = ExpressedRun{.model = "gpt2:layers=12,hidden=768",
                         .topology = fmt::format("dgx-a100:{}", 1 + below(8)),
                         .recipe = "tp2,pp2,mbs1",
                         .batch = 1 + below(1000),
                         .gradient_type = flip() ? DataType::Float16 : DataType::Float32,
                         .runtime = flip() ? "nanotron" : "torch-eager",
                         .workspace = Bytes(below(1 << 30)),
                         .post_validation = flip(),
                         .fullest_peak = flip(),
                         .memory_figure = static_cast<MemoryFigure>(below(3))};
  return run;
}

TEST(RunsTable, ReadsWhatRowsSay) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    std::vector<MeasuredRun> runs;
    std::vector<Cells> rows;
    for (std::size_t row = 0; row < 20; ++row) {
      runs.push_back(random_run(rng, row));
      rows.push_back(cells_of(runs.back()));
    }
    const std::vector<MeasuredRun> found = read_table(table_of_rows(rows));
    ASSERT_EQ(found.size(), runs.size());
    for (std::size_t row = 0; row < runs.size(); ++row)
      EXPECT_EQ(found[row], runs[row]) << "seed " << seed << ", row " << row;
  }
}

TEST(RunsTable, TakesWhatIsLeftOutForUsual) {
  const MeasuredRun run = read_table("model,devices,recipe,batch\ngpt2,dgx-a100,mbs1,8\n").front();
  EXPECT_EQ(run.name, "gpt2 on dgx-a100: mbs1 batch 8");
  EXPECT_EQ(run.workload, "gpt2 on dgx-a100, batch 8");
  EXPECT_EQ(run.fitted, true);
  EXPECT_EQ(
      *run.run,
      (ExpressedRun{
          .model = "gpt2", .topology = "dgx-a100", .recipe = "mbs1", .batch = 8, .fullest_peak = true}));
  const MeasuredRun failed =
      read_table("model,devices,recipe,batch,status\ngpt2,dgx-a100,mbs1,8,hung\n").front();
  EXPECT_EQ(failed.reason, "a run that failed: hung");
  EXPECT_FALSE(failed.run);
}

TEST(RunsTable, RefusesOtherTables) {
  EXPECT_EQ(
      refusal_of_table("case,tp,recipe,batch\na,1,mbs1,8\n"),
      "runs.csv:1: is no table of measured runs: has no columns model, devices, allowed: model, devices, "
      "recipe, batch and what \"pipesim help accuracy --all\" names; scripts in data/measured/convert write "
      "such tables from published ones");
  EXPECT_TRUE(
      refusal_of_table("model,devices,recipe,batch,tme\ngpt2,dgx-a100,mbs1,8,1 s\n")
          .starts_with(
              "runs.csv:1: found the column \"tme\" (did you mean \"time\"?), allowed: name, model, "));
}

TEST(RunsTable, RefusesWhatItCannotRead) {
  const std::string setting = "gpt2,dgx-a100,mbs1,8,";
  const auto with = [&](const std::string& column, const std::string& cell) {
    return refusal_of_table("model,devices,recipe,batch,name," + column + "\n" + setting + "a," + cell +
                            "\n");
  };
  const std::string start = "runs.csv:2: column ";
  EXPECT_EQ(with("memory_of", "first"),
            start + "\"memory_of\": found \"first\", allowed: last, fullest, or nothing");
  EXPECT_EQ(with("memory_figure", "active"),
            start + "\"memory_figure\": found \"active\", allowed: allocated, reserved, process, or nothing");
  EXPECT_EQ(with("time_of", "run"),
            start + "\"time_of\": found \"run\", allowed: device, iteration, or nothing");
  EXPECT_EQ(with("time", "0 s"), start + "\"time\": found \"0 s\", allowed: more than 0, or nothing");
  EXPECT_EQ(with("traits", "tp"), start +
                                      "\"traits\": found \"tp\", allowed: names with numbers, such as "
                                      "\"tp=8;sequence=4096\", or nothing");
  EXPECT_EQ(with("compared_with", "b"), start + "\"compared_with\": found \"b\", allowed: the name of a row");
  EXPECT_EQ(with("size", "1 MB"), start + "\"size\": found \"1 MB\", allowed: nothing in the row of a run");
  EXPECT_EQ(with("product_alone", "1 ms"),
            start + "\"model\": found \"gpt2\", allowed: nothing in the row of a mixture");
  EXPECT_EQ(with("collective", "all-reduce"),
            start + "\"model\": found \"gpt2\", allowed: nothing in the row of a collective");
  EXPECT_TRUE(with("gradient_type", "half").starts_with(start + "\"gradient_type\": "));
  EXPECT_EQ(refusal_of_table("model,devices,recipe,batch,reason\n,,,,an odd model\n"),
            start + "\"name\": found \"\", allowed: a name, since the row has a reason in place of a run");
  EXPECT_EQ(refusal_of_table("name,devices,collective,members,size\na,dgx-a100,all-reduce,2,\n"),
            start + "\"size\": is empty");
}

}  // namespace
}  // namespace pipesim
