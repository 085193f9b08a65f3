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
if(MZCACHE_SANITIZE STREQUAL "address")
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
