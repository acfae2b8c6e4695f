// '--name value' pairs over a table of defaults.
export function options(defaults) {
  const asked = {...defaults};
  for (let i = 2; i < process.argv.length; i += 2) {
    const name = process.argv[i].replace(/^--/, '');
    if (!(name in defaults) || i + 1 >= process.argv.length) {
      console.error(`unknown or incomplete option: ${process.argv[i]}; there are ${Object.keys(defaults).map((n) => `--${n}`).join(' ')}`);
      process.exit(2);
    }
    asked[name] = process.argv[i + 1];
  }
  return asked;
}
