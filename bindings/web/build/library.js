// What Ferry and emscripten's runtime ask of the page.
addToLibrary({
  // Tools work on one thread: the module's workers are those of its sessions.
  emscripten_num_logical_cores: () => 1,

  // Unicode's simple case mapping: one to several characters is not a simple one.
  ferry_map_case: (codePoint, upper) => {
    const letter = String.fromCodePoint(codePoint);
    const mapped = upper ? letter.toUpperCase() : letter.toLowerCase();
    const first = mapped.codePointAt(0);
    return String.fromCodePoint(first) === mapped ? first : codePoint;
  },

  $ferryClasses: {},
  ferry_in_unicode_class__deps: ['$UTF8ToString', '$ferryClasses'],
  ferry_in_unicode_class: (name, codePoint) => {
    const text = UTF8ToString(name);
    if (!(text in ferryClasses)) {
      ferryClasses[text] = null;
      for (const form of [`\\p{${text}}`, `\\p{Script=${text}}`]) {
        try {
          if (/^[A-Za-z_]+$/.test(text)) ferryClasses[text] = ferryClasses[text] || new RegExp(form, 'u');
        } catch {
          // the other form, or none
        }
      }
    }
    const found = ferryClasses[text];
    return found ? Number(found.test(String.fromCodePoint(codePoint))) : -1;
  },
});
