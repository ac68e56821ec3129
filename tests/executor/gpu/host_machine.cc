#include "tests/executor/gpu/host_machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sim/base/errors.h"

namespace pipesim::gpu {

class HostEvent : public Event {
 public:
  std::shared_ptr<HostMachine::Point> point;  // where it was recorded last
};

namespace {

constexpr std::size_t kAlignment = 256;

class HostRecording : public Recording {
 public:
  std::vector<std::pair<HostMachine::Queue*, HostMachine::Work>> work;
};

class HostGate : public Gate {
 public:
  explicit HostGate(std::shared_ptr<HostMachine::Point> point) : point_(std::move(point)) {}
  ~HostGate() override { point_->over = true; }
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;
  bool open() override {
    point_->over = true;
    return !point_->by_limit;
  }

 private:
  std::shared_ptr<HostMachine::Point> point_;
};

class HostStream : public Stream {
 public:
  HostStream(HostMachine& machine, DeviceId device) : machine_(machine), device_(device) {
    machine_.enter(queue_);
  }
  ~HostStream() override {
    free_scratch();
    machine_.leave(queue_);
    for (const auto& blocks : {idle_, recorded_}) {
      for (const auto& [memory, size] : blocks) machine_.release(device_, memory, Bytes(size));
    }
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  void launch(std::size_t body_number, const void* body, std::size_t bytes, std::int64_t count) override {
    const auto* first = static_cast<const std::byte*>(body);
    // Aligned as any body is.
    auto copy = std::make_shared<std::vector<std::max_align_t>>(bytes / sizeof(std::max_align_t) + 1);
    std::memcpy(copy->data(), first, bytes);
    note([=, team = machine_.settings().team] { run_body_on_host(body_number, copy->data(), count, team); });
  }
  void multiply(const MatrixProduct& product) override {
    note([=] { multiply_on_host(product); });
  }
  void convolve(const Convolution& convolution) override {
    note([=] { convolve_on_host(convolution); });
  }
  void zero(void* memory, std::size_t bytes) override {
    if (bytes > 0) note([=] { std::memset(memory, 0, bytes); });
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) note([=] { std::memmove(to, from, bytes); });
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    const auto* first = static_cast<const std::byte*>(from);
    note([to, content = std::vector<std::byte>(first, first + bytes)] {
      std::copy(content.begin(), content.end(), static_cast<std::byte*>(to));
    });
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    finish();
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void record(Event& event) override {
    auto& host_event = dynamic_cast<HostEvent&>(event);
    host_event.point = std::make_shared<HostMachine::Point>();
    machine_.note(queue_, {.run = {}, .reached = host_event.point, .event = &host_event});
  }
  void wait(const Event& event) override {
    const auto& host_event = dynamic_cast<const HostEvent&>(event);
    if (!host_event.point) throw InternalError("a stream waits for an event that nobody recorded");
    machine_.note(queue_, {.run = {}, .awaited = host_event.point});
  }
  void repeat(const Recording& recording) override {
    const auto& noted = dynamic_cast<const HostRecording&>(recording);
    note([] {});
    finish();  // a recording begins where it is repeated
    std::map<std::shared_ptr<HostMachine::Point>, std::shared_ptr<HostMachine::Point>> again;
    for (const auto& [queue, work] : noted.work) {
      HostMachine::Work copy = work;
      if (copy.reached) {
        copy.reached = again[work.reached] = std::make_shared<HostMachine::Point>();
        copy.event->point = copy.reached;
      }
      if (const auto at = again.find(work.awaited); at != again.end()) copy.awaited = at->second;
      machine_.note(*queue, std::move(copy));
    }
    for (const auto& [queue, work] : noted.work) machine_.drain(*queue);
  }
  std::unique_ptr<Gate> close_gate(Nanoseconds /*limit*/) override {
    if (machine_.recording()) throw InternalError("a gate is closed in work that is only recorded");
    return std::make_unique<HostGate>(machine_.gate(queue_));
  }
  std::byte* scratch(std::size_t bytes) override {
    const auto size = static_cast<std::int64_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
    std::byte* memory = machine_.allocate(device_, Bytes(size));
    if (memory == nullptr) throw DeviceError("out of memory: scratch memory of a kernel");
    taken_.emplace_back(memory, size);
    return memory;
  }
  // What the stream has not done yet may still use it: nothing is given back before. Recordings use it again
  // whenever they are repeated.
  void free_scratch() override {
    if (machine_.recording()) {
      recorded_.insert(recorded_.end(), taken_.begin(), taken_.end());
      taken_.clear();
      return;
    }
    idle_.insert(idle_.end(), taken_.begin(), taken_.end());
    taken_.clear();
  }
  void finish() override {
    machine_.drain(queue_);
    for (const auto& [memory, size] : idle_) machine_.release(device_, memory, Bytes(size));
    idle_.clear();
  }

 private:
  void note(std::function<void()> work) { machine_.note(queue_, {.run = std::move(work)}); }

  HostMachine& machine_;
  DeviceId device_;
  HostMachine::Queue queue_;
  std::vector<std::pair<std::byte*, std::int64_t>> taken_, idle_, recorded_;
};

}  // namespace

HostMachine::~HostMachine() = default;

Bytes HostMachine::free_memory(DeviceId device) const {
  const auto used = used_.find(device.value);
  const std::int64_t limit = settings_.memory < 0 ? INT64_MAX : settings_.memory;
  return Bytes(limit - (used == used_.end() ? 0 : used->second));
}

std::byte* HostMachine::allocate(DeviceId device, Bytes size) {
  std::int64_t& used = used_[device.value];
  if (settings_.memory >= 0 && used + size.value > settings_.memory - settings_.hidden) return nullptr;
  const std::size_t rounded = (static_cast<std::size_t>(size.value) / kAlignment + 1) * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  std::memset(memory, 0xFF, rounded);  // not a number, whatever it is read as
  used += size.value;
  allocated_ += size.value;
  return memory;
}

void HostMachine::release(DeviceId device, std::byte* memory, Bytes size) {
  used_[device.value] -= size.value;
  allocated_ -= size.value;
  std::free(memory);
}

std::unique_ptr<Stream> HostMachine::make_stream(DeviceId device, StreamUse /*use*/) {
  return std::make_unique<HostStream>(*this, device);
}

std::unique_ptr<Event> HostMachine::make_event(DeviceId /*device*/) { return std::make_unique<HostEvent>(); }

Nanoseconds HostMachine::time_between(const Event& from, const Event& to) {
  const auto &a = dynamic_cast<const HostEvent&>(from), &b = dynamic_cast<const HostEvent&>(to);
  if (!a.point || !b.point || !a.point->over || !b.point->over)
    throw InternalError("the time of an event that is not over");
  return b.point->time - a.point->time;
}

void HostMachine::begin_recording(Stream& /*first*/) { noted_.emplace(); }

std::unique_ptr<Recording> HostMachine::end_recording(Stream& /*first*/) {
  auto recording = std::make_unique<HostRecording>();
  recording->work = std::move(noted_.value());
  noted_.reset();
  return recording;
}

void HostMachine::note(Queue& queue, Work work) {
  work.task = task_;
  if (noted_) {
    noted_->emplace_back(&queue, std::move(work));
    return;
  }
  while (settings_.room > 0 && std::ssize(queue.work) >= settings_.room) {
    if (!step()) throw InternalError("streams wait for one another");
  }
  queue.work.push_back(std::move(work));
}

std::shared_ptr<HostMachine::Point> HostMachine::gate(Queue& queue) {
  auto point = std::make_shared<Point>();
  note(queue, {.run = {}, .awaited = point});
  std::erase_if(gates_, [](const auto& gate) { return gate.expired(); });
  gates_.emplace_back(point);
  return point;
}

void HostMachine::pass_limits() {
  for (const std::weak_ptr<Point>& gate : gates_) {
    const std::shared_ptr<Point> point = gate.lock();
    if (point && !point->over) point->over = point->by_limit = true;
  }
  gates_.clear();
}

void HostMachine::leave(const Queue& queue) { std::erase(queues_, &queue); }

bool HostMachine::do_what_may_begin() {
  std::vector<Queue*> ready;
  for (Queue* queue : queues_) {
    if (queue->work.empty()) continue;
    const Work& next = queue->work.front();
    if (!next.awaited || next.awaited->over) ready.push_back(queue);
  }
  if (ready.empty()) return false;
  Queue& queue = *ready[rng_.below(ready.size())];
  const Work work = std::move(queue.work.front());
  queue.work.pop_front();
  if (work.run) work.run();
  if (work.run && work.task != 0) done_of_tasks_.push_back({work.task, done_});
  ++done_;
  if (work.reached) *work.reached = {true, done_};
  return true;
}

bool HostMachine::waits() const {
  return std::ranges::any_of(queues_, [](const Queue* queue) { return !queue->work.empty(); });
}

// One piece of work of a stream that may go on, now or when time has passed; false when none may.
bool HostMachine::step() {
  if (do_what_may_begin()) return true;
  pass_limits();
  return do_what_may_begin();
}

void HostMachine::drain(const Queue& queue) {
  if (noted_) throw InternalError("the host waits for work that is only recorded");
  while (!queue.work.empty()) {
    if (!step()) throw InternalError("streams wait for one another");
  }
}

}  // namespace pipesim::gpu
