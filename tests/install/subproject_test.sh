#!/bin/sh
# A project takes Ferry in with add_subdirectory, and another with FetchContent: both configure, Ferry leaves their settings
# as they are and has all it needs to build, and a file of each compiles. Building all of it is what the release build does.
# usage: subproject_test.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1
work=$2/subproject_test
fail() { echo "FAILED: $1" >&2; exit 1; }

consumer() {  # FOLDER HOW
  mkdir -p "$1"
  cat > "$1/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DCONSUMER_RELEASE")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_library(kernels INTERFACE)  # names that are the consumer's to take
add_custom_target(test_data)
add_custom_target(completions)
$2
foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES LINK_OPTIONS)
  get_directory_property(value \${property})
  if(value)
    message(FATAL_ERROR "\${property} of the consumer became \${value}")
  endif()
endforeach()
if(NOT CMAKE_CXX_STANDARD EQUAL 17 OR NOT CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O1 -DCONSUMER_RELEASE"
   OR CMAKE_POSITION_INDEPENDENT_CODE OR CMAKE_CXX_VISIBILITY_PRESET OR CMAKE_CXX_COMPILER_LAUNCHER)
  message(FATAL_ERROR "settings of the consumer were changed")
endif()
foreach(target ferry_python test_ops run_mutants)
  if(TARGET \${target})
    message(FATAL_ERROR "\${target} is not for consumers")
  endif()
endforeach()
add_executable(consumer_shared main.c)
target_link_libraries(consumer_shared PRIVATE ferry::ferry_shared)
add_executable(consumer_static main.cc)
target_compile_features(consumer_static PRIVATE cxx_std_20)
target_link_libraries(consumer_static PRIVATE ferry::ferry)
END
  echo '#include <ferry/ferry.h>
int main(void) { return ferry_abi_version() < FERRY_ABI_VERSION; }' > "$1/main.c"
  echo '#include <ferry/ferry.hpp>
int main() { return ferry_abi_version() < FERRY_ABI_VERSION; }' > "$1/main.cc"
  cmake -G Ninja -S "$1" -B "$1/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON > "$1/log" 2>&1 ||
    { cat "$1/log" >&2; fail "configuring $1"; }
}

rm -rf "$work"
consumer "$work/subdirectory" "add_subdirectory($source ferry)"
consumer "$work/fetched" "include(FetchContent)
FetchContent_Declare(ferry SOURCE_DIR $source)
FetchContent_MakeAvailable(ferry)"

cd "$work/subdirectory/build"
grep '"command"' compile_commands.json | grep 'consumer_static\.dir' > ../own_command
grep -q -- '-O1 -DCONSUMER_RELEASE' ../own_command || fail "the consumer's own flags: $(cat ../own_command)"
for flag in -Wall -fdata-sections -fvisibility -fPIC -Os; do
  if grep -q -- "$flag" ../own_command; then fail "Ferry's $flag reached the consumer: $(cat ../own_command)"; fi
done
grep '"command"' compile_commands.json | grep 'src/base/text\.cc' | grep -q -- '-Os .*-std=c++20' || fail "Ferry lost its own flags"
ninja -n consumer_shared consumer_static ferry/ferry > ../plan || fail "something is missing: $(tail -n 3 ../plan)"
ninja CMakeFiles/consumer_shared.dir/main.c.o CMakeFiles/consumer_static.dir/main.cc.o \
  ferry/CMakeFiles/ferry_room_base.dir/src/base/error.cc.o ferry/CMakeFiles/ferry_room_image.dir/src/image/bmp.cc.o \
  ferry/CMakeFiles/ferry_kernels_baseline.dir/src/kernels/simd/panel_gemm.cc.o \
  > ../build_log || { cat ../build_log >&2; fail "compiling"; }
if ninja -n all | grep -q 'CXX executable ferry/'; then fail "Ferry's programs are built though nobody asked"; fi
echo "taken in by add_subdirectory and FetchContent"
