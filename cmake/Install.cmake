# What an embedder installs: the public headers, one shared library, and the files by which
# find_package(mzcache) and pkg-config find them. In the tree everything links the rooms' static
# libraries; the shared library is made of the same objects.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(mzcache_rooms actors io gpu codec engine_core engine)
add_library(mzcache SHARED)
foreach(room ${mzcache_rooms})
  target_sources(mzcache PRIVATE $<TARGET_OBJECTS:mzcache_${room}>)
  target_link_libraries(mzcache PRIVATE $<TARGET_PROPERTY:mzcache_${room},INTERFACE_LINK_LIBRARIES>)
endforeach()
set_target_properties(mzcache PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
