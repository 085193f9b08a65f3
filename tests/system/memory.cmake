# What memory and threads promise. test_memory: the real model's memory really goes and comes;
# test_runtime_stress: the tiny golden models, thousands of messages, from many threads.
mzcache_test(test_memory LIBS mzcache::engine mzcache_asio SOURCES
  memory_probe.cpp test_memory_evict.cpp test_memory_floor.cpp ${CMAKE_SOURCE_DIR}/tests/support/needs_model.cpp)
# Alone: the process's PSS moves when another with the same libraries comes or goes.
set_tests_properties(test_memory PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 RUN_SERIAL TRUE)
add_dependencies(test_memory mzcache-compile)

mzcache_test(test_runtime_stress LIBS mzcache::engine mzcache_asio SOURCES
  memory_probe.cpp stress_cycles.cpp stress_lifetime.cpp stress_threads.cpp stress_placement.cpp)
set_tests_properties(test_runtime_stress PROPERTIES TIMEOUT 600 RUN_SERIAL TRUE)
add_dependencies(test_runtime_stress mzcache-compile)

# A memory cgroup of its own needs root; without it the program is not among the tests.
execute_process(COMMAND id -u OUTPUT_VARIABLE mzcache_uid OUTPUT_STRIP_TRAILING_WHITESPACE)
if(mzcache_uid STREQUAL "0")
  mzcache_test(test_memory_root LIBS mzcache::engine mzcache_asio SOURCES
    memory_probe.cpp test_memory_cgroup.cpp ${CMAKE_SOURCE_DIR}/tests/support/needs_model.cpp)
  set_tests_properties(test_memory_root PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS root
                       RUN_SERIAL TRUE)
  add_dependencies(test_memory_root mzcache-compile)
endif()
