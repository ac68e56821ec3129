#include <fmt/format.h>
#include <gmock/gmock.h>

#include "costmodel/database.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/traces/trace_analysis.h"
#include "tools/analysis/traces/trace_constants.h"
#include "tools/interop/traces/read_trace.h"
#include "tools/render/traces/trace_report.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Made here, with tables and columns as NVIDIA's "SQLite Schema Reference" (Nsight Systems User Guide) has
// them: no file that nsys itself wrote is at hand.
class NsysTrace : public testing::Test {
 protected:
  void make(const std::string& sql) {
    Database file(path(), Database::Mode::Create, path());
    file.execute(sql);
  }
  void make_all() {
    make(
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId "
        "INTEGER "
        "NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid "
        "INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER NOT NULL);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass "
        "INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId "
        "INTEGER "
        "NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid "
        "INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);"
        "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text "
        "TEXT, "
        "globalTid INTEGER, textId INTEGER);"
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, busLocation TEXT);"
        "INSERT INTO StringIds VALUES (1, 'ampere_gemm(float*)'), (2, 'ncclDevKernel_AllReduce'), (3, "
        "'cudaLaunchKernel'), (4, 'ProfilerStep#1');"
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100', '0'), (1, 'NVIDIA A100', '1');");
  }
  [[nodiscard]] std::string path() const { return folder_.path("report.sqlite"); }

  TemporaryFolder folder_;
};

constexpr std::int64_t kFirst = 100LL << 24, kSecond = 200LL << 24;  // globalPid of two processes

TEST_F(NsysTrace, TellsProcessesAndDevicesApart) {
  make_all();
  make(fmt::format(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 5000, 0, 1, 7, 11, {0}, 1, 1, 8), (2500, "
      "4500, 1, 1, 7, 11, {1}, 2, 2, 8);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5000, 6000, 0, 1, 7, 12, {0}, 400, 1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1200, 1, {0} + 3, 11, 3), (1100, 1300, 1, "
      "{1} + 4, 11, 3);"
      "INSERT INTO NVTX_EVENTS VALUES (900, 1500, 59, 'aten::mm, op_id = 3', {0} + 3, NULL), (800, 7000, "
      "60, NULL, {0} + 3, 4), (1, NULL, 34, 'mark', {0} + 3, NULL);",
      kFirst, kSecond));
  const MeasuredTrace trace = read_trace(path());
  EXPECT_THAT(trace.device_names, ElementsAre("NVIDIA A100", "NVIDIA A100"));
  ASSERT_EQ(trace.activities.size(), 3U);
  const TracedOperator* op = trace.operator_of(trace.activities[0]);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(trace.name(op->name), "aten::mm");
  EXPECT_EQ(trace.operator_of(trace.activities[1]), nullptr) << "the other process has no ranges";
  EXPECT_EQ(trace.launches[static_cast<std::size_t>(trace.activities[1].launch)].start, 1100);
  const TraceAnalysis analysis = analyze({&trace, 1});
  ASSERT_EQ(analysis.devices.size(), 2U);
  EXPECT_EQ(analysis.devices[0].device.source, StepSource::ProfilerSteps);
  EXPECT_DOUBLE_EQ(analysis.devices[0].steps[0].busy.value, 4e-6)
      << "a copy without a launch counts by its start";
  EXPECT_DOUBLE_EQ(analysis.devices[1].steps[0].exposed.value, 2e-6);
}

TEST_F(NsysTrace, RefusesDatabasesWithoutItsTables) {
  make("CREATE TABLE StringIds (id INTEGER, value TEXT)");
  EXPECT_EQ(
      refusal([&] { (void)read_trace(path()); }),
      path() +
          ": table CUPTI_ACTIVITY_KIND_KERNEL is missing, allowed: what nsys export --type sqlite writes of "
          "a run with kernels");
}

// Each process sees one device, as with CUDA_VISIBLE_DEVICES, and calls it 0.
TEST_F(NsysTrace, TellsDevicesApartThatProcessesCallAlike) {
  make_all();
  make(fmt::format(
      "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT);"
      "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 100, 'a'), (0, 0, 200, 'b');"
      "UPDATE TARGET_INFO_GPU SET name = 'Tesla V100' WHERE id = 1;"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 5000, 0, 1, 7, 11, {0}, 1, 1, 8), (2500, "
      "4500, 0, 1, 7, 11, {1}, 2, 2, 8);",
      kFirst, kSecond));
  const MeasuredTrace trace = read_trace(path());
  EXPECT_EQ(trace.activities[0].device, 1);
  EXPECT_EQ(trace.activities[1].device, 0);
  const TraceAnalysis analysis = analyze({&trace, 1});
  const auto kinds = kinds_of(analysis);
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0].name, "NVIDIA A100");
  EXPECT_EQ(kinds[1].name, "Tesla V100");
  EXPECT_THAT(to_text(analysis, {&trace, 1}),
              HasSubstr("1 step on 2 devices (1 x NVIDIA A100, 1 x Tesla V100), "));
  const Topology topology = open_topology("dgx-a100:1");
  EXPECT_EQ(refusal([&] {
              (void)constants_of(analysis, {&trace, 1}, topology, Runtime(), {});
            }),
            fmt::format("the traces are of 2 kinds of devices: \"NVIDIA A100\" ({0}), \"Tesla V100\" ({0}), "
                        "allowed with --topology: one, as constants are those of a kind",
                        path()));
}

// A graph that was recorded as a whole, and tables without columns that other versions have.
TEST_F(NsysTrace, ReadsGraphsAndTablesOfOtherVersions) {
  make(
      "CREATE TABLE StringIds (id INTEGER, value TEXT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, graphId "
      "INTEGER, streamId INTEGER, correlationId INTEGER);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, greenContextId "
      "INTEGER, streamId INTEGER, shortName INTEGER);"
      "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT);"
      "INSERT INTO StringIds VALUES (1, 'gemm');"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, NULL, 7, 1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (20, 50, 0, 3, 7, 9);"
      "INSERT INTO NVTX_EVENTS VALUES (5, 60, 'ProfilerStep#1');");
  const MeasuredTrace trace = read_trace(path());
  ASSERT_EQ(trace.activities.size(), 2U);
  EXPECT_EQ(trace.name(trace.activities[0].name), "gemm");
  EXPECT_EQ(trace.name(trace.activities[1].name), "CUDA graph");
  EXPECT_EQ(trace.activities[1].duration, 30);
  EXPECT_EQ(trace.ranges.size(), 1U);
}

TEST_F(NsysTrace, RefusesTablesWithoutTheirColumnsAndReportsThemselves) {
  make(
      "CREATE TABLE StringIds (id INTEGER, value TEXT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (begin INTEGER, end INTEGER, deviceId INTEGER);");
  EXPECT_EQ(
      refusal([&] { (void)read_trace(path()); }),
      path() +
          ": table CUPTI_ACTIVITY_KIND_KERNEL has no column \"start\", allowed: what nsys export --type "
          "sqlite writes");
  EXPECT_EQ(
      refusal([&] { (void)read_trace("run.nsys-rep"); }),
      "run.nsys-rep: is a report of Nsight Systems, allowed: what nsys export --type sqlite writes of it");
}

TEST_F(NsysTrace, RefusesTimesThatGoBack) {
  make_all();
  make("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 1500, 0, 1, 7, 11, 0, 1, 1, 8)");
  EXPECT_EQ(refusal([&] { (void)read_trace(path()); }),
            path() + ": CUPTI_ACTIVITY_KIND_KERNEL: row 1: \"end\" is 1500, allowed: 2000 or more");
}

TEST_F(NsysTrace, RefusesDamagedFiles) {
  make_all();
  const std::string whole = read_file(path());
  write_file(path(), whole.substr(0, 3000));
  EXPECT_NE(refusal([&] { (void)read_trace(path()); }), "accepted");
}

}  // namespace
}  // namespace pipesim
