#include "tests/layers/repository_rules.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string lines(std::size_t count) { return std::string(count, '\n'); }

TEST(RepositoryRules, HoldInTheWholeRepository) {
  const auto files = source_tree({".h", ".cc", ".cu", ".cuh", ".sh", "README.md"});
  ASSERT_GT(files.size(), 30U) << "the scan did not find the sources";
  for (const SourceFile& file : files) EXPECT_THAT(broken_file_rules(file), IsEmpty()) << file.path;
}

TEST(RepositoryRules, CommentsBeginAsSentences) {
  for (const SourceFile& file : source_tree({".h", ".cc", ".cu", ".cuh"}))
    EXPECT_THAT(comments_without_subject(file), IsEmpty());
}

TEST(RepositoryRules, EachFolderOfSourcesSaysWhatItIs) {
  std::set<std::string> folders;
  for (const SourceFile& file : source_tree({".cc"})) folders.insert(file.folder());
  folders.erase("tests");
  for (const std::string& folder : folders) {
    const auto readme = std::filesystem::path(PIPESIM_SOURCE_DIR) / folder / "README.md";
    EXPECT_TRUE(std::filesystem::exists(readme)) << readme;
  }
}

TEST(RepositoryRules, NoFolderIsCrowded) {
  std::vector<SourceFile> files = source_tree({".h", ".cc", ".cu", ".cuh", ".py", ".md", ".txt", ".sh"});
  std::erase_if(files, [](const SourceFile& file) { return file.path.starts_with("tests/"); });
  EXPECT_THAT(crowded_folders(files), IsEmpty());
}

TEST(RepositoryRules, NoHiddenNamesClashInAUnit) {
  EXPECT_THAT(clashing_names(source_tree({".cc", ".h"})), IsEmpty());
}

TEST(RepositoryRules, CatchHiddenNamesThatClash) {
  const auto file = [](const std::string& path, const std::string& text) {
    return SourceFile{
        path, "namespace pipesim {\nnamespace {\n" + text + "}  // namespace\n}  // namespace pipesim\n"};
  };
  const auto clashes = [&](const std::string& a, const std::string& b) {
    return clashing_names(std::vector{file("sim/a.cc", a), file("sim/b/c.cc", b)});
  };
  EXPECT_THAT(clashes("struct Task {\n", "class Task final : public A {\n"),
              ElementsAre("Task: is in sim/a.cc and in sim/b/c.cc"));
  EXPECT_THAT(clashes("constexpr int kMost = 3;\n", "const std::string kMost{\"a\"};\n"),
              ElementsAre("kMost: is in sim/a.cc and in sim/b/c.cc"));
  EXPECT_THAT(clashes("int half(int a) {\n", "int half(int a) {\n"),
              ElementsAre("half(int): is in sim/a.cc and in sim/b/c.cc"));
  EXPECT_THAT(clashes("int half(const A<int, B>& a, int b) {\n", "double half(const A<int, B>& x, int) {\n"),
              ElementsAre("half(const A<int, B>&, int): is in sim/a.cc and in sim/b/c.cc"));
  EXPECT_THAT(clashes("int half(int a) {\n", "int half(double a) {\n"), IsEmpty());
  EXPECT_THAT(clashes("struct Task {\n", "  struct Task {\n"), IsEmpty());
  EXPECT_THAT(
      clashing_names(std::vector{file("sim/a.cc", "struct A {\n"), file("models/a.cc", "struct A {\n")}),
      IsEmpty());
  EXPECT_THAT(
      clashing_names(std::vector{file("tests/sim/a.cc", "struct A {\n"), file("sim/a.cc", "struct A {\n")}),
      IsEmpty());
  EXPECT_THAT(clashing_names(std::vector{file("tests/sim/a.cc", "struct A {\n"),
                                         file("tests/sim/b.cc", "struct A {\n")}),
              ElementsAre("A: is in tests/sim/a.cc and in tests/sim/b.cc"));
  const SourceFile header{"topologies/a.h",
                          "namespace pipesim {\nint half(int whole);\n}  // namespace pipesim\n"};
  EXPECT_THAT(clashing_names(std::vector{header, file("sim/a.cc", "std::string half(int a) {\n")}),
              ElementsAre("half(int): is in topologies/a.h and in sim/a.cc"));
  EXPECT_THAT(clashing_names(std::vector{header, file("sim/a.cc", "int half(int a, int b) {\n")}), IsEmpty());
  // Namespaces of their own keep them apart.
  SourceFile apart = file("sim/a.cc", "struct A {\n");
  apart.text.replace(apart.text.find("pipesim"), 7, "pipesim::cpu");
  EXPECT_THAT(clashing_names(std::vector{apart, file("sim/b.cc", "struct A {\n")}), IsEmpty());
}

TEST(RepositoryRules, CatchReadmesThatAreTooLong) {
  EXPECT_THAT(broken_file_rules({"sim/README.md", lines(40)}), IsEmpty());
  EXPECT_THAT(broken_file_rules({"sim/README.md", lines(41)}),
              ElementsAre("sim/README.md: has 41 lines, at most 40 are allowed"));
}

TEST(RepositoryRules, CatchCrowdedFolders) {
  std::vector<SourceFile> files;
  for (int i = 0; i < 30; ++i) files.push_back({"sim/base/" + std::to_string(i) + ".h", ""});
  files.push_back({"sim/a.h", ""});
  EXPECT_THAT(crowded_folders(files), IsEmpty());
  files.push_back({"sim/base/30.h", ""});
  EXPECT_THAT(crowded_folders(files), ElementsAre("sim/base: has 31 files, at most 30 are allowed"));
}

TEST(RepositoryRules, CatchTestsThatTestNothing) {
  EXPECT_THAT(broken_file_rules({"tests/sim/a_test.cc", "TEST(A, B) {}\n"}),
              ElementsAre("tests/sim/a_test.cc: tests nothing"));
  EXPECT_THAT(broken_file_rules({"tests/sim/a_test.cc", "TEST(A, B) { EXPECT_TRUE(f()); }\n"}), IsEmpty());
}

TEST(RepositoryRules, CatchCommentsWithoutSubject) {
  const auto broken = [](const std::string& text) { return comments_without_subject({"sim/a.h", text}); };
  EXPECT_THAT(broken("// Tasks end.\n"), IsEmpty());
  EXPECT_THAT(broken("  /// Of a task.\nint a;\n"),
              ElementsAre("sim/a.h:1: \"Of a task.\" does not begin as a sentence"));
  EXPECT_THAT(broken("// Tasks end,\n// Or they don't.\n"),
              ElementsAre("sim/a.h:2: \"Or they don't.\" does not begin as a sentence"));
  EXPECT_THAT(broken("int a;\n\n// As simulated.\n"),
              ElementsAre("sim/a.h:3: \"As simulated.\" does not begin as a sentence"));
  EXPECT_THAT(broken("// the first one\n"),
              ElementsAre("sim/a.h:1: \"the first one\" does not begin as a sentence"));
  EXPECT_THAT(broken("// Tasks begin\n// as soon as they can.\n"), IsEmpty());
  EXPECT_THAT(broken("// y = f(x)\n"), IsEmpty());
  EXPECT_THAT(broken("// x times y = z\n"), IsEmpty());
  EXPECT_THAT(broken("// clang-format off\n"), IsEmpty());
  EXPECT_THAT(broken("int a;  ///< by operator, or none\n"), IsEmpty());
}

TEST(RepositoryRules, CatchUntidyText) {
  EXPECT_THAT(broken_file_rules({"sim/a.h", "int a;\n"}),
              ElementsAre("sim/a.h: does not start with #pragma once"));
  EXPECT_THAT(broken_file_rules({"sim/a.cc", "int a;"}), ElementsAre("sim/a.cc: does not end in a newline"));
  EXPECT_THAT(broken_file_rules({"sim/a.cc", "\tint a; \r\n"}),
              ElementsAre("sim/a.cc: has tabs", "sim/a.cc: has carriage returns"));
  EXPECT_THAT(broken_file_rules({"sim/a.cc", "int a; \n"}), ElementsAre("sim/a.cc: has trailing spaces"));
}

}  // namespace
}  // namespace pipesim
