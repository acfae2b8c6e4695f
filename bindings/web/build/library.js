// What emscripten's runtime asks of the page. Tools work on one thread: the module's workers are those of its sessions.
addToLibrary({
  emscripten_num_logical_cores: () => 1,
});
