#!/bin/sh
# CMake's compiler launcher: compile.sh CCACHE COMPILER ARGUMENT...
# ccache cannot keep precompiled headers, whose bytes differ from run to run. They are compiled anew in
# each checkout; a digest of their text beside them (.gch.sum) lets ccache find what includes them.
ccache=$1
shift
case " $* " in
  *" -x c++-header "*) ;;
  *) exec "$ccache" "$@" ;;
esac
"$@" || exit
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case $argument in
    -o) output=$1 ;;
    -MT | -MF) ;;
    -MD | -c) continue ;;
    *)
      set -- "$@" "$argument"
      continue
      ;;
  esac
  shift
  left=$((left - 1))
done
"$@" -E -dD -P > "$output.text" || exit
sha256sum < "$output.text" > "$output.sum"
rm "$output.text"
