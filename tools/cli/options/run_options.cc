#include "tools/cli/options/run_options.h"

namespace pipesim {

std::vector<Option> run_options(const std::string& steps) {
  return in_group(
      OptionGroup::Execution,
      {{.name = "backend",
        .argument = "NAME",
        .default_value = "cpu",
        .help = "what runs it: cpu, cuda or emulated",
        .choices = {{"cpu", "threads of this host's cores"},
                    {"cuda", "GPUs of NVIDIA"},
                    {"emulated", "devices that take as long as predicted and compute nothing"}}},
       {"virtual-devices", "", "", "devices are equal parts of one GPU's multiprocessors"},
       {.name = "emulate-links",
        .argument = "",
        .default_value = "",
        .help = "transfers take at least the time of the topology's links",
        .details = "Between virtual devices of one GPU."},
       {"tf32", "", "", "let GPUs multiply float32 as TF32, with 10-bit mantissas"},
       {.name = "recorded",
        .argument = "",
        .default_value = "",
        .help = "replay the first step on GPUs",
        .details = "As a CUDA graph. It is faster, but has no times of single tasks."},
       {.name = "held",
        .argument = "",
        .default_value = "",
        .help = "GPUs wait until the host has enqueued a step",
        .details =
            "At most 100 ms. Then a step takes what its tasks take, as in predictions without a host, and "
            "still has times of single tasks."},
       {.name = "rendezvous",
        .argument = "PLACE",
        .default_value = "",
        .help = "where processes on GPUs meet",
        .details = "tcp://HOST:PORT, or mpi. Without it mpi under mpirun, else the address and port that "
                   "torchrun or Slurm names."},
       {"slow", "LIST", "", "slow emulated devices down, as gpu3=1.5,gpu4=2"},
       {"steps", "N", steps, "iterations to measure"},
       {"warmup", "N", "3", "iterations before them"},
       {"seed", "N", "1", "seed of data and initial weights"},
       {.name = "data",
        .argument = "TENSOR=FILE[:TYPE][@OFFSET]",
        .default_value = "",
        .help = "read a data tensor from a file of numbers; may be repeated",
        .repeated = true,
        .details = "For example labels=text.bin:uint8@1."},
       {"learning-rate", "RATE", "0.01", "learning rate of the plan's optimizer"},
       {"threads-per-device", "N", "1", "threads of a device's kernels"},
       {.name = "arena",
        .argument = "",
        .default_value = "",
        .help = "put all buffers of a device into one block of memory",
        .details = "Each buffer has its place from the start. Otherwise it is allocated when it is used."},
       {"oversubscribe", "", "", "allow more devices than cores"},
       {"no-realtime", "", "", "do not use SCHED_FIFO, even where it is permitted"}});
}

std::vector<Option> plan_set_options(const std::string& verb, const std::string& random) {
  return in_group(OptionGroup::Execution,
                  {{"plan", "FILE", "", "also " + verb + " this plan; may be repeated", 0, true},
                   {"random", "N", random, "also " + verb + " N random strategies"}});
}

}  // namespace pipesim
