# For tests on the emulated GPU.  The leak checker cannot stop the thread that keeps the fake runtime's streams going.
export CTRAIN_PLUGIN_DIR="$CT_BUILD/tests/cuda/emu"
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
