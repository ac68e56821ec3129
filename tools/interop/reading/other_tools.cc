#include "tools/interop/reading/other_tools.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace pipesim {
namespace {

// All marks of a row stand in a file of the tool.
struct ToolMarks {
  std::string_view tool;
  std::array<std::string_view, 2> marks;  ///< beginnings of lines
};

// Keys of YAML files, by the documentation of each tool.
constexpr std::array kKeys = std::to_array<ToolMarks>({
    {"Hugging Face Accelerate", {"compute_environment:", "distributed_type:"}},
    {"LLaMA-Factory", {"model_name_or_path:", "finetuning_type:"}},
    {"LLaMA-Factory", {"model_name_or_path:", "stage:"}},
    {"TRL", {"model_name_or_path:", "dataset_name:"}},
    {"axolotl", {"base_model:", "datasets:"}},
    {"axolotl", {"base_model:", "sequence_len:"}},
    {"torchtune", {"_component_: torchtune", ""}},
    {"NeMo 2", {"trainer.strategy.", ""}},
    {"NeMo 1", {"exp_manager:", "trainer:"}},
    {"NeMo 1", {"megatron_amp_O2:", ""}},
    {"PyTorch Lightning", {"class_path:", "trainer:"}},
    {"LLM Foundry", {"max_seq_len:", "variables:"}},
    {"LLM Foundry", {"device_train_microbatch_size:", ""}},
    {"OLMo", {"device_train_microbatch_size:", "save_folder:"}},
    {"nanotron", {"micro_batch_accumulation_per_replica:", ""}},
    {"GPT-NeoX", {"pipe_parallel_size", "model_parallel_size"}},
    {"GPT-NeoX", {"\"pipe_parallel_size\"", "\"model_parallel_size\""}},
    {"GPT-NeoX", {"\"pipe-parallel-size\"", "\"model-parallel-size\""}},
});

// Modules that programs of Python import.
constexpr std::array kModules = std::to_array<ToolMarks>({
    {"NeMo 2", {"from nemo", ""}},
    {"NeMo 2", {"import nemo_run", ""}},
    {"torchtune", {"from torchtune", ""}},
    {"Hugging Face Accelerate", {"from accelerate", ""}},
    {"TRL", {"from trl", ""}},
    {"Hugging Face Transformers", {"from transformers", ""}},
    {"PyTorch Lightning", {"import lightning", ""}},
    {"DeepSpeed's own program", {"import deepspeed", ""}},
});

// The first words of a command; the second "": whatever follows.
constexpr std::array kCommands = std::to_array<ToolMarks>({
    {"Hugging Face Accelerate", {"accelerate", "launch"}},
    {"LLaMA-Factory", {"llamafactory-cli", ""}},
    {"axolotl", {"axolotl", ""}},
    {"torchtune", {"tune", "run"}},
    {"TRL", {"trl", ""}},
    {"NeMo 2", {"nemo", "llm"}},
    {"LLM Foundry", {"composer", ""}},
    {"Colossal-AI", {"colossalai", "run"}},
    {"ms-swift", {"swift", ""}},
    {"PyTorch Lightning", {"fabric", "run"}},
});

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Lines without comments and blanks in front.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    while (!line.empty() && (is_blank(line.front()) || line.front() == '-')) line.remove_prefix(1);
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  }
  return lines;
}

template <std::size_t N>
std::string tool_by_lines(std::string_view text, const std::array<ToolMarks, N>& table) {
  const std::vector<std::string_view> lines = lines_of(text);
  const auto stands = [&](std::string_view mark) {
    return mark.empty() ||
           std::ranges::any_of(lines, [&](std::string_view line) { return line.starts_with(mark); });
  };
  for (const ToolMarks& row : table) {
    if (stands(row.marks[0]) && stands(row.marks[1])) return std::string(row.tool);
  }
  return "";
}

}  // namespace

std::string tool_of_configuration(std::string_view text, const std::string& file) {
  return file.ends_with(".py") ? tool_by_lines(text, kModules) : tool_by_lines(text, kKeys);
}

std::string tool_of_script(std::string_view text) {
  for (const std::string_view line : lines_of(text)) {
    std::vector<std::string_view> words;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
      if (end > at) words.push_back(line.substr(at, end - at));
      at = end + 1;
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (const ToolMarks& row : kCommands) {
        const std::string_view next = i + 1 < words.size() ? words[i + 1] : "";
        const bool in_front = i == 0 || words[i - 1].find('=') != std::string_view::npos ||
                              words[0] == "srun" || words[0] == "exec";
        if (in_front && words[i] == row.marks[0] && (row.marks[1].empty() || next == row.marks[1]))
          return std::string(row.tool);
      }
    }
  }
  return "";
}

}  // namespace pipesim
