#!/bin/sh
# One version for everything: MAJOR is the shared library's SOVERSION, MINOR the ABI number of ferry.h, and CMake's package,
# pkg-config, the library and the Python package say the same.
# usage: version_test.sh SOURCE_DIR BUILD_DIR libferry.so FERRY
set -eu
source=$1 build=$2 library=$3 ferry=$4
fail() { echo "FAILED: $1" >&2; exit 1; }

version=$(sed -n 's/^project(ferry VERSION \([0-9]*\.[0-9]*\.[0-9]*\) .*/\1/p' "$source/CMakeLists.txt")
[ -n "$version" ] || fail "CMakeLists.txt names no version MAJOR.MINOR.PATCH"
major=${version%%.*} rest=${version#*.}
minor=${rest%%.*}

abi=$(sed -n 's/^#define FERRY_ABI_VERSION \([0-9]*\)$/\1/p' "$source/include/ferry/ferry.h")
[ "$abi" = "$minor" ] ||
  fail "the version is $version, FERRY_ABI_VERSION $abi: what is added to the C ABI raises both, MAJOR.$abi.0"
soname=$(objdump -p "$library" | awk '/SONAME/ { print $2 }')
[ "$soname" = "libferry.so.$major" ] || fail "the library calls itself $soname; the version is $version"
[ "$(readlink -f "$library" | sed 's/.*libferry\.so\.//')" = "$version" ] || fail "$(readlink -f "$library") is not of version $version"
[ "$("$ferry" --version | awk '{ print $2; exit }')" = "$version" ] || fail "$("$ferry" --version) is not $version"
grep -q "^Version: $version\$" "$build/ferry.pc" || fail "ferry.pc has another version than $version"

# What find_package(ferry WANTED) finds: all that has no less, of the same major version.
accepts() {  # WANTED
  echo "set(PACKAGE_FIND_VERSION $1)
string(REPLACE . \";\" parts $1)
list(GET parts 0 PACKAGE_FIND_VERSION_MAJOR)
include($build/ferry-config-version.cmake)
if(NOT PACKAGE_VERSION VERSION_EQUAL $version OR NOT PACKAGE_VERSION_COMPATIBLE)
  message(FATAL_ERROR no)
endif()" > "$build/accepts.cmake"
  cmake -DCMAKE_SIZEOF_VOID_P=8 -P "$build/accepts.cmake" > /dev/null 2>&1
}
accepts "$version" || fail "find_package(ferry $version) refuses $version"
[ "$minor" -eq 0 ] || accepts "$major.$((minor - 1))" || fail "find_package(ferry $major.$((minor - 1))) refuses $version"
if accepts "$major.$((minor + 1))"; then fail "find_package(ferry $major.$((minor + 1))) takes $version"; fi
if accepts "$((major + 1)).0"; then fail "find_package(ferry $((major + 1)).0) takes $version"; fi
echo "$version everywhere"
