# For tests on the emulated GPU.  The leak checker cannot stop the thread that keeps the fake
# runtime's streams going.
export CTRAIN_PLUGIN_DIR="$CT_BUILD/tests/cuda/emu"
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

# Ends a test that takes minutes under sanitizers, which slow the emulator's threads down.
without_sanitizers() {
  [ -z "$CT_SAN" ] && return
  echo "1..0 # SKIP a build with sanitizers"
  exit 0
}
