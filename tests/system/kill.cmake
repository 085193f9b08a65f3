# The worst that can happen to an eviction: the process killed, the disk full, unreadable, or gone.
# They need the real model (skipped, 77, without it); *_root need mounts and loop devices.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
function(mzcache_kill_test name)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/${name}.py)
  set(environment "MZCACHE_BINARY=$<TARGET_FILE:mzcache_command>"
                  "PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/tools")
  if(NOT DEFINED ENV{MZCACHE_MODEL})
    list(APPEND environment
         "MZCACHE_MODEL=${CMAKE_SOURCE_DIR}/models/SmolLM2-135M-Instruct.Q4_1.gguf")
  endif()
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77
                       LABELS slow TIMEOUT 600)
endfunction()

mzcache_kill_test(test_kill)
execute_process(COMMAND id -u OUTPUT_VARIABLE mzcache_uid OUTPUT_STRIP_TRAILING_WHITESPACE)
if(mzcache_uid STREQUAL "0")
  mzcache_kill_test(test_kill_root)
  set_tests_properties(test_kill_root PROPERTIES LABELS "slow;root")
endif()
