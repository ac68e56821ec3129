#include "costmodel/calibration_store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "costmodel/database.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

CalibrationRun run_on(const std::string& host) {
  return {{host, "EPYC 9654", 96, "Linux 6.1", {{"oneDNN", "2.6.3"}}}, "2025-03-01T12:00:00Z", 0.01};
}

Measurement linear_measurement(std::int64_t rows) {
  Measurement m;
  m.key.name = "linear";
  m.key.attributes = "activation=\"relu\", bias=1";
  m.key.sizes = {rows, 64, 32};
  m.key.place = "cpu";
  m.work = {2.0 * static_cast<double>(rows) * 64 * 32, 1e4, MatrixSize{1, rows, 32, 64}};
  m.seconds = {1e-3, 1.5e-3, 1.2e-3};
  m.dropped = 2;
  return m;
}

std::vector<Measurement> one_of_each() {
  std::vector<Measurement> batch{linear_measurement(8), linear_measurement(16), {}, {}};
  batch[1].key.pass = Pass::BackwardInput;
  batch[1].key.busy_neighbours = 3;
  batch[2].key = update_key(Optimizer::Adam, 4096, DataType::BFloat16, "cpu");
  batch[2].seconds = {2e-5};
  batch[3].key = transfer_key(Collective::AllReduce, 4, Bytes(1 << 20), DataType::Float32, "nodes 2+2");
  batch[3].seconds = {3e-4, 1.0 / 3};
  return batch;
}

TEST(CalibrationStore, RoundTrip) {
  const TemporaryFolder folder;
  CalibrationStore store = CalibrationStore::create(folder.path("cpu.db"), run_on("node1"));
  store.add(one_of_each());
  store.correct({{"forward", {1.25, 1e-6, 40, 2}}});
  const Calibration loaded = load_calibration(folder.path("cpu.db"));
  EXPECT_EQ(loaded, store.calibration());
  EXPECT_EQ(loaded.keys.size(), 4U);
  EXPECT_EQ(loaded.keys.at(linear_measurement(8).key).durations(), Distribution({1e-3, 1.2e-3, 1.5e-3}, 2));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.exists() ? 1 : 0;
  EXPECT_EQ(files, 1U) << "temporary files were left behind";
}

TEST(CalibrationStore, AddsToWhatIsThere) {
  const TemporaryFolder folder;
  const std::string path = folder.path("cpu.db");
  CalibrationStore::create(path, run_on("node1")).add(one_of_each());
  CalibrationStore more = CalibrationStore::open(path, run_on("node2"));
  Measurement again = linear_measurement(8);
  again.seconds = {9e-3};
  more.add(std::vector{again});
  const Calibration loaded = load_calibration(path);
  ASSERT_EQ(loaded.runs.size(), 2U);
  EXPECT_EQ(loaded.runs[1].host.name, "node2");
  EXPECT_EQ(loaded.keys.at(again.key).durations(), Distribution({1e-3, 1.2e-3, 1.5e-3, 9e-3}, 4));
  EXPECT_EQ(loaded.keys.at(again.key).samples[1].run, 1U);
}

TEST(CalibrationStore, RefusesKeysWithoutCleanSamples) {
  const TemporaryFolder folder;
  const std::string path = folder.path("cpu.db");
  CalibrationStore store = CalibrationStore::create(path, run_on("node1"));
  store.add(std::vector{linear_measurement(8)});
  Measurement noisy = linear_measurement(16);
  noisy.seconds.clear();
  const std::string reason = path +
                             ": no clean samples of linear forward [16, 64, 32] float32 on cpu "
                             "(activation=\"relu\", bias=1), 2 were dropped";
  EXPECT_EQ(refusal([&] { store.add(std::vector{linear_measurement(32), noisy}); }), reason);
  EXPECT_EQ(load_calibration(path).keys.size(), 1U);
  noisy.seconds = {0};
  EXPECT_EQ(
      refusal([&] { store.add(std::vector{noisy}); }),
      path +
          ": a sample of linear forward [16, 64, 32] float32 on cpu (activation=\"relu\", bias=1) is 0 s, "
          "allowed: above 0");
}

// A file that people have edited.
std::string refusal_after(const std::string& sql) {
  const TemporaryFolder folder;
  const std::string path = folder.path("cpu.db");
  CalibrationStore::create(path, run_on("node1")).add(std::vector{linear_measurement(8)});
  { Database(path, Database::Mode::Create, path).execute(sql); }
  const std::string reason = refusal([&] { load_calibration(path); });
  return reason.starts_with(path + ": ") ? reason.substr(path.size() + 2) : reason;
}

TEST(CalibrationStore, RefusesDamagedFiles) {
  EXPECT_EQ(refusal_after("SELECT 1"), "accepted");
  EXPECT_EQ(refusal_after("PRAGMA user_version = 9"), "has schema version 9, this pipesim reads version 1");
  EXPECT_EQ(refusal_after("PRAGMA application_id = 1"), "is not a calibration file");
  EXPECT_EQ(refusal_after("DELETE FROM samples"),
            "no clean samples of linear forward [8, 64, 32] float32 on cpu (activation=\"relu\", bias=1), 2 "
            "were dropped");
  EXPECT_EQ(refusal_after("DROP TABLE samples"), "is damaged: no such table: samples");
  EXPECT_EQ(refusal_after("UPDATE samples SET seconds = -1"),
            "is damaged: a sample is -1 s, allowed: above 0");
  EXPECT_EQ(refusal_after("UPDATE samples SET run = 4"), "is damaged: there is no run 4");
  EXPECT_EQ(refusal_after("UPDATE keys SET sizes = '8,x'"), "is damaged: \"8,x\" is no list of integers");
  EXPECT_EQ(refusal_after("UPDATE keys SET matrix = '0,1,1,1'"), "is damaged: \"0,1,1,1\" is no matrix size");
  EXPECT_EQ(refusal_after("UPDATE keys SET subject = 'weather'"), "is damaged: unknown subject \"weather\"");
  EXPECT_EQ(refusal_after("UPDATE keys SET pass = 'sideways'"), "is damaged: unknown pass \"sideways\"");
  EXPECT_EQ(refusal_after("UPDATE keys SET subject = 'transfer'"),
            "is damaged: sizes \"8,64,32\" of a key of linear, allowed: 2 from 0 on");
  EXPECT_EQ(refusal_after("INSERT INTO corrections VALUES('forward', 0, 0, 1, 1)"),
            "is damaged: the correction of forward is 0 and 0 s");
  EXPECT_EQ(refusal_after("UPDATE runs SET cores = 1 << 40"),
            "is damaged: found 1099511627776 cores, allowed: 0 to 2147483647");
  EXPECT_EQ(refusal_after("UPDATE runs SET noise_floor = 9e999"),
            "is damaged: found inf of noise, allowed: numbers from 0 on");
  EXPECT_EQ(refusal_after("UPDATE keys SET flops = -1"),
            "is damaged: found -1 FLOPs, allowed: numbers from 0 on");
  EXPECT_EQ(refusal_after("UPDATE keys SET busy_neighbours = -1"),
            "is damaged: found -1 busy neighbours, allowed: 0 to 2147483647");
  EXPECT_EQ(refusal_after("UPDATE dropped SET count = -1"),
            "is damaged: found -1 dropped samples, allowed: 0 to 1000000000000");
}

TEST(CalibrationStore, RefusesTextsThatAreNotUtf8) {
  EXPECT_EQ(refusal_after("UPDATE runs SET host = CAST(x'41ff' AS TEXT)"), "is damaged: a text is not UTF-8");
}

// Their sum does not overflow.
TEST(CalibrationStore, RefusesMoreDroppedSamplesThanThereCanBe) {
  EXPECT_EQ(
      refusal_after("UPDATE dropped SET count = 600000000000; INSERT INTO dropped SELECT * FROM dropped"),
      "is damaged: found 1200000000000 dropped samples of a key, allowed: 0 to 1000000000000");
}

// They would be evaluated, and need not end.
TEST(CalibrationStore, RefusesTablesThatCompute) {
  EXPECT_EQ(refusal_after("DROP TABLE runs; CREATE VIEW runs AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                          "SELECT i + 1 FROM n) SELECT i AS id, '' AS host, '' AS processor, 1 AS cores, '' "
                          "AS kernel, '' AS date, 0 AS noise_floor FROM n"),
            "is damaged: \"runs\" is no table of a calibration");
  EXPECT_EQ(refusal_after("ALTER TABLE samples ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))"),
            "is damaged: \"samples\" is no table of a calibration");
  EXPECT_EQ(refusal_after("CREATE TABLE more(x CHECK(length(hex(zeroblob(100000000))) > 0))"),
            "is damaged: \"more\" is no table of a calibration");
}

TEST(CalibrationStore, RefusesOtherFiles) {
  const TemporaryFolder folder;
  const std::string text = folder.file("notes.txt", std::string(5000, 'x')), missing = folder.path("no.db");
  EXPECT_EQ(refusal([&] { load_calibration(text); }), text + ": is not a calibration file");
  EXPECT_EQ(refusal([&] { load_calibration(missing); }),
            missing + ": can't be read: No such file or directory");
  EXPECT_EQ(refusal([&] { load_calibration(folder.path()); }),
            folder.path() + ": is a directory, a file is needed");
  EXPECT_EQ(refusal([&] { load_calibration(folder.file("empty.db", "")); }),
            folder.path("empty.db") + ": is not a calibration file");
  const std::string nowhere = folder.path("none/cpu.db");
  EXPECT_EQ(refusal([&] { CalibrationStore::create(nowhere, run_on("node1")); }),
            nowhere + ": can't be written: there is no folder " + folder.path("none"));
}

// Bytes changed anywhere are refused or read, never crash.
TEST(CalibrationStore, SurvivesDamagedBytes) {
  const TemporaryFolder folder;
  const std::string path = folder.path("cpu.db");
  CalibrationStore::create(path, run_on("node1")).add(one_of_each());
  const std::string content = read_file(path);
  int refused = 0;
  for (std::size_t at = 0; at < content.size(); at += 97) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
    const std::string file = folder.file("damaged.db", damaged);
    refused += refusal([&] { load_calibration(file); }) == "accepted" ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
  const std::string half = folder.file("half.db", content.substr(0, content.size() / 2));
  EXPECT_NE(refusal([&] { load_calibration(half); }), "accepted");
}

}  // namespace
}  // namespace pipesim
