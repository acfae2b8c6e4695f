#!/bin/sh
# Nothing runs before main: usage: static_initialisation_test.sh LIBFERRY.a
set -eu
nm -A "$1" 2> /dev/null | grep -E '_GLOBAL__(sub_)?I_' > "$1.initialised" || { rm -f "$1.initialised"; exit 0; }
echo "these have objects that are made before main; make them constexpr, or static inside a function:"
sed 's/:[0-9a-f ]*t / /' "$1.initialised"
exit 1
