#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "sim/base/files.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

// A fenced block of a page: "json" with a file's name above it, "sh" with commands, "" with what the command
// above it prints.
struct Block {
  std::string language, file, text;
};

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream lines(page);
  std::string last;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      if (!inside) {
        const bool named = last.starts_with('`') && last.ends_with("`:");
        blocks.push_back({line.substr(3), named ? last.substr(1, last.size() - 3) : "", ""});
      }
      inside = !inside;
      last.clear();
    } else if (inside) {
      blocks.back().text += line + "\n";
    } else if (!line.empty()) {
      last = line;
    }
  }
  return blocks;
}

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream in(command);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

class WorkingFolder {
 public:
  explicit WorkingFolder(const std::string& path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

// docs/files.md: its files are written, its commands run in order, and they print what stands there.
TEST(FilesPage, ShowsWhatIs) {
  const std::vector<Block> blocks = blocks_of(read_file(PIPESIM_SOURCE_DIR "/docs/files.md"));
  const TemporaryFolder folder;
  const WorkingFolder here(folder.path());
  int files = 0, commands = 0, outputs = 0;
  Outcome last;
  for (const Block& block : blocks) {
    if (!block.file.empty()) {
      write_file(block.file, block.text);
      ++files;
    } else if (block.language == "sh") {
      std::istringstream lines(block.text);
      for (std::string line; std::getline(lines, line);) {
        std::vector<std::string> words = words_of(line);
        ASSERT_FALSE(words.empty());
        ASSERT_EQ(words.front(), "pipesim") << line;
        words.erase(words.begin());
        last = pipesim_run(words);
        EXPECT_EQ(last.status, 0) << line << "\n" << last;
        ++commands;
      }
    } else if (block.language.empty()) {
      EXPECT_EQ(last.out, block.text);
      ++outputs;
    }
  }
  EXPECT_GE(files, 4);
  EXPECT_GE(commands, 8);
  EXPECT_GE(outputs, 2);
}

}  // namespace
}  // namespace pipesim
