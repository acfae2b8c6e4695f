#!/bin/sh
# Holds the C ABI against its record: functions and their types, enum values, struct sizes and offsets. What is recorded
# may never change; what is new has to be recorded: abi_test.sh --record SOURCE LIBRARY.
# usage: abi_test.sh SOURCE_DIR libferry.so
set -eu
record=no
if [ "$1" = --record ]; then record=yes; shift; fi
source=$1
library=$2
recorded=$source/tests/api/abi.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The header without comments and line breaks, one declaration a line.
sed -e '/^#/d' -e 's|/\*[^*]*\*/||g' "$source/include/ferry/ferry.h" | tr '\n' ' ' |
  awk '{ gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, ""); gsub(/[ \t]+/, " "); gsub(/;/, ";\n"); print }' > "$work/plain"
grep -o 'FERRY_API .*;' "$work/plain" | sed -e 's/^FERRY_API //' -e 's/^/function /' > "$work/now"
grep -oE '\b(FERRY_[A-Z0-9_]+) = [0-9]+' "$source/include/ferry/ferry.h" | sed 's/^/value /' >> "$work/now"

# Sizes and offsets, by asking the compiler.
cat > "$work/sizes.c" <<'END'
#include <ferry/ferry.h>
#include <stdio.h>
#define FIELD(type, field) printf("offset %s.%s = %zu\n", #type, #field, offsetof(type, field))
int main(void) {
  printf("size ferry_code = %zu\nsize ferry_dtype = %zu\nsize ferry_kind = %zu\n", sizeof(ferry_code),
         sizeof(ferry_dtype), sizeof(ferry_kind));
  printf("size ferry_allocator = %zu\n", sizeof(ferry_allocator));
  FIELD(ferry_allocator, allocate);
  FIELD(ferry_allocator, release);
  FIELD(ferry_allocator, user);
  return 0;
}
END
cc -I"$source/include" -o "$work/sizes" "$work/sizes.c"
"$work/sizes" >> "$work/now"
LC_ALL=C sort -o "$work/now" "$work/now"

if [ "$record" = yes ]; then cp "$work/now" "$recorded"; fi
LC_ALL=C diff -u "$recorded" "$work/now" || {
  echo "FAILED: the C ABI differs from tests/api/abi.txt; lines with '-' must never go" >&2
  exit 1
}

sed -n 's/^function .*\b\(ferry_[a-z0-9_]*\)(.*/\1/p' "$recorded" | LC_ALL=C sort > "$work/declared"
nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort > "$work/shown"
diff -u "$work/declared" "$work/shown" || { echo "FAILED: the library shows other names than the header" >&2; exit 1; }
echo "$(wc -l < "$work/declared") functions, as recorded"
