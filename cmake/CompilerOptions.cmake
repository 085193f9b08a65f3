# Flags every target of the project shares, as one interface library.
add_library(mzcache_options INTERFACE)
target_compile_features(mzcache_options INTERFACE cxx_std_20)
target_compile_options(mzcache_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion -ffp-contract=off)
target_compile_definitions(mzcache_options INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_include_directories(mzcache_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
if(MZCACHE_WERROR)
  target_compile_options(mzcache_options INTERFACE -Werror)
endif()
if(MZCACHE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "MZCACHE_FUZZ needs clang: use the preset fuzz (tools/setup.sh --fuzz)")
  endif()
  # Everything is instrumented, so that the fuzzer sees every branch; only its targets get its main().
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(MZCACHE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(MZCACHE_SANITIZE STREQUAL "thread")
  # moodycamel uses fences, which GCC's TSan does not model; it says so at every include.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
endif()

# One room: a static library, with include paths and flags.  mzcache_room(name SOURCES…)
function(mzcache_room name)
  add_library(mzcache_${name} STATIC ${ARGN})
  add_library(mzcache::${name} ALIAS mzcache_${name})
  target_link_libraries(mzcache_${name} PUBLIC $<BUILD_INTERFACE:mzcache_options>)
endfunction()

# Headers that take seconds to parse are parsed once, for a library of executables and for these.
# mzcache_precompile(library HEADERS…)  mzcache_reuse_precompiled(executable library)
function(mzcache_precompile library)
  if(MZCACHE_WERROR)  # every file by itself, and every warning
    return()
  endif()
  # As CMake compiles executables; code for shared libraries cannot use the same file.
  set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${library} PRIVATE -fPIE)
  target_precompile_headers(${library} PRIVATE ${ARGN})
  # GCC 12 then forgets that the standard library's strings are not ours to warn about.
  target_compile_options(${library} PUBLIC -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
endfunction()
function(mzcache_reuse_precompiled executable library)
  if(NOT MZCACHE_WERROR)
    target_precompile_headers(${executable} REUSE_FROM ${library})
  endif()
endfunction()
