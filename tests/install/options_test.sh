#!/bin/sh
# What a package makes possible is on as soon as the package is there, in a build folder that was configured before it came, too;
# what was switched off stays off.
# usage: options_test.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1
work=$2/options_test
rm -rf "$work"
configure() { cmake -G Ninja -S "$source" -B "$work" -DFERRY_PYTHON=OFF "$@" > "$work.log" 2>&1 || { cat "$work.log" >&2; exit 1; }; }
expect() {  # ON|OFF WHEN
  grep -q "^FERRY_TESTS:BOOL=$1\$" "$work/CMakeCache.txt" || { echo "FAILED: FERRY_TESTS is not $1 $2" >&2; exit 1; }
}
configure -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON
expect OFF "without GoogleTest"
configure -UCMAKE_DISABLE_FIND_PACKAGE_GTest
expect ON "once GoogleTest is there"
configure -DFERRY_TESTS=OFF
configure
expect OFF "after it was switched off"
rm -rf "$work" "$work.log"
