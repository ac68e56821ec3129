# A program that the tests of rendezvous start several times, beside theirs.
add_executable(rendezvous_process tests/executor/ranks/rendezvous/process.cc)
target_link_libraries(rendezvous_process PRIVATE pipesim_executor)
add_dependencies(executor_test rendezvous_process)
