#!/bin/sh
# Installs Ferry into an empty folder, builds the examples against it with nothing else of the checkout, and runs them.
# usage: install_test.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1
build=$2
work=$build/install_test
model=$build/test_data/torch-models/simple_net/torch.onnx
rm -rf "$work"
cmake --install "$build" --prefix "$work/ferry" > "$work.log"

fail() { echo "FAILED: $1" >&2; exit 1; }

# scripts/build builds the target 'installable': what makes each installed file of the build folder is part of it.
ninja -C "$build" -t commands installable > "$work.commands"
for file in $(grep -oE "\"$build/(ferry|lib|completion|man)[^\"]*\"" "$build/cmake_install.cmake" | tr -d '"' | sed "s|^$build/||" | sort -u); do
  case $file in ferry.pc | *.cmake) continue ;; libferry.so*) file=libferry.so ;; esac
  grep -qE "(-o |[ /])$file( |\.|\$)" "$work.commands" || fail "'installable' does not build $file"
done

grep -q '^\.TH FERRY 1' "$work/ferry/share/man/man1/ferry.1" || fail "there is no manual page"
"$work/ferry/bin/ferry" --version | grep -q '^ferry [0-9]' || fail "the installed binary does not run"

for language in c cpp; do
  cmake -G Ninja -S "$source/examples/$language" -B "$work/$language" -DCMAKE_PREFIX_PATH="$work/ferry" \
    -DCMAKE_BUILD_TYPE=Release > "$work/$language.log" || { cat "$work/$language.log"; fail "configuring examples/$language"; }
  cmake --build "$work/$language" > "$work/$language.log" || { cat "$work/$language.log"; fail "building examples/$language"; }
done

"$work/c/classify" "$model" > "$work/c.out" || fail "running the C example"
grep -q 'x float\[batch, 10\] -> linear_1 float\[batch, 3\]' "$work/c.out" || fail "what the C example says: $(cat "$work/c.out")"
[ "$(wc -l < "$work/c.out")" -eq 4 ] || fail "the C example should print three answers"
for program in classify classify_static; do
  "$work/cpp/$program" "$model" > "$work/cpp.out" || fail "running the C++ example $program"
  [ "$(tail -n 3 "$work/cpp.out")" = "$(tail -n 3 "$work/c.out")" ] || fail "C and C++ ($program) give different answers"
done
for program in simple_net simple_net_static; do
  "$work/cpp/$program" "$work/$program.onnx" > "$work/$program.out" || fail "running $program: $(cat "$work/$program.out")"
  for line in 'is valid' 'input  input float\[batch, 10\]' 'output output float\[batch, 3\]' 'allclose true'; do
    grep -q "$line" "$work/$program.out" || fail "$program should say '$line', says: $(cat "$work/$program.out")"
  done
  "$work/ferry/bin/ferry" check "$work/$program.onnx" > "$work/check.out" || fail "what $program wrote: $(cat "$work/check.out")"
done
"$work/c/classify" /nowhere.onnx 2> "$work/error" && fail "a missing model should be an error"
grep -q nowhere.onnx "$work/error" || fail "the error should name the file"

libraries=$(dirname "$(find "$work/ferry" -name 'libferry.so')")
extra=$(nm -D --defined-only "$libraries/libferry.so" | awk '{print $3}' | grep -v '^ferry_' || true)
[ -z "$extra" ] || fail "libferry.so shows more than the C ABI: $extra"
for name in $(grep -oE '\bferry_[a-z0-9_]+\(' "$source/include/ferry/ferry.h" | tr -d '(' | sort -u); do
  nm -D --defined-only "$libraries/libferry.so" | grep -q " $name\$" || fail "libferry.so lacks $name"
done

if command -v pkg-config > /dev/null; then
  # shellcheck disable=SC2046 -- flags are words
  cc -o "$work/by_pkg_config" "$source/examples/c/classify.c" \
    $(PKG_CONFIG_PATH="$libraries/pkgconfig" pkg-config --cflags --libs ferry) \
    -Wl,-rpath,"$libraries" || fail "building with pkg-config's flags"
  "$work/by_pkg_config" "$model" | cmp -s - "$work/c.out" || fail "the pkg-config build gives different answers"
fi
echo "installed, and the examples work"
