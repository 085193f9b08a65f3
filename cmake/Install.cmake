# What an embedder installs: the public headers, one shared library, and the files by which
# find_package(mzcache) and pkg-config find them. In the tree everything links the rooms' static
# libraries; the shared library is made of the same objects.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(mzcache_rooms actors io gpu codec engine_core engine)
add_library(mzcache SHARED)
foreach(room ${mzcache_rooms})
  target_sources(mzcache PRIVATE $<TARGET_OBJECTS:mzcache_${room}>)
endforeach()
target_link_libraries(mzcache PRIVATE PkgConfig::OPENCL PkgConfig::LIBURING PkgConfig::ZSTD PkgConfig::LZ4
                      PkgConfig::XXHASH PkgConfig::PCRE2 tomlplusplus::tomlplusplus fmt::fmt
                      Threads::Threads)
set_target_properties(mzcache PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

install(TARGETS mzcache EXPORT mzcacheTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS mzcache_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Found beside a program's directory: see the search order in src/gpu/program_child.cpp.
install(TARGETS mzcache-compile RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/mzcache)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/mzcache DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

# Public headers need Asio (standalone) and C++20, nothing else.
target_compile_features(mzcache PUBLIC cxx_std_20)
target_compile_definitions(mzcache PUBLIC ASIO_STANDALONE)
target_include_directories(mzcache INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(EXPORT mzcacheTargets NAMESPACE mzcache:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mzcache)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/mzcacheConfig.cmake.in ${CMAKE_BINARY_DIR}/mzcacheConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mzcache)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/mzcacheConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/mzcache.pc.in ${CMAKE_BINARY_DIR}/mzcache.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/mzcacheConfig.cmake ${CMAKE_BINARY_DIR}/mzcacheConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mzcache)
install(FILES ${CMAKE_BINARY_DIR}/mzcache.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
