#include "executor/tensors/host_collectives.h"

#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::byte* begin_of(const View& view, const CommunicationWork& work, const Memory& memory) {
  if (!view.present()) return nullptr;
  return memory.address(view.buffer) + (view.offset + work.part.begin) * bytes_per_element(work.type);
}

void send_or_receive(const CommunicationWork& work, std::byte* give, std::byte* get, Communicator& world,
                     std::int64_t tag) {
  if (work.rank == 0) {
    world.send(give, work.part.length(), work.type, work.group[1].value, tag);
  } else {
    world.receive(get, work.part.length(), work.type, work.group[0].value, tag);
  }
}

}  // namespace

void communicate_on_host(const CommunicationWork& work, const Memory& memory, Communicator& world,
                         std::int64_t tag) {
  std::byte *give = begin_of(work.give, work, memory), *get = begin_of(work.get, work, memory);
  if (work.kind == Collective::Send) {
    send_or_receive(work, give, get, world, tag);
    return;
  }
  std::vector<int> members;
  for (const DeviceId d : work.group) members.push_back(d.value);
  const std::unique_ptr<Communicator> group = world.group(members);
  const std::int64_t elements = work.part.length();
  switch (work.kind) {
    case Collective::AllReduce:
      group->all_reduce(get, elements, work.type, work.reduce, tag);
      return;
    case Collective::ReduceScatter:
      group->reduce_scatter(give, get, elements, work.type, work.reduce, tag);
      return;
    case Collective::AllGather:
      group->all_gather(give, get, elements, work.type, tag);
      return;
    case Collective::AllToAll:
      group->all_to_all(give, get, elements, work.type, tag);
      return;
    case Collective::Broadcast:
      group->broadcast(work.rank == 0 ? give : get, elements, work.type, 0, tag);
      return;
    case Collective::Reduce:
      group->reduce(work.rank == 0 ? get : give, get, elements, work.type, work.reduce, 0, tag);
      return;
    case Collective::Send:
      break;
  }
  throw InternalError("a collective of no kind");
}

}  // namespace pipesim
