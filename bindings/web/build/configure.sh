#!/bin/sh
# configure.sh TOOLCHAIN BUILD_FOLDER [CODECS]: CMake with clang itself for the objects, which saves starting Python for each.
set -eu
toolchain=$1 build=$2 codecs=${3:-}
root=$(cd "$(dirname "$0")/../../.." && pwd)
llvm=$(sed -n "s/^LLVM_ROOT = '\(.*\)'/\1/p" "$toolchain/config")
shared="-pthread -fwasm-exceptions -msimd128"
# shellcheck disable=SC2086 -- one word each
flags="$("$toolchain/em++" -O2 --cflags $shared) $shared"
cmake -G Ninja -S "$root/bindings/web" -B "$build" -DCMAKE_BUILD_TYPE=None -DCMAKE_SYSTEM_NAME=Generic \
  -DCMAKE_SYSTEM_PROCESSOR=wasm32 -DCMAKE_CXX_COMPILER="$llvm/clang++" -DCMAKE_CXX_COMPILER_WORKS=1 \
  -DCMAKE_C_COMPILER="$llvm/clang" -DCMAKE_C_COMPILER_WORKS=1 -DCMAKE_C_FLAGS="$flags" -DFERRY_WEB_CODECS="$codecs" \
  -DCMAKE_CXX_COMPILER_TARGET=wasm32-unknown-emscripten -DCMAKE_AR="$llvm/llvm-ar" -DCMAKE_RANLIB="$llvm/llvm-ranlib" \
  -DCMAKE_CXX_FLAGS="$flags" -DFERRY_EMXX="$toolchain/em++"
