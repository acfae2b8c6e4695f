// Elements in few words, and numbers for people.

// What goes wrong where nobody waits for it: main.mjs says it to the user.
let report = (error) => console.error(error);
export function reportWith(use) { report = use; }
export const careful = (use) => (...given) => {
  try {
    const result = use(...given);
    if (result && result.catch) result.catch(report);
  } catch (error) {
    report(error);
  }
};

export function el(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'class') made.className = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), careful(value));
    else if (key in made && key !== 'list') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const byId = (id) => document.getElementById(id);

export function count(value) {
  if (value === null || value === undefined) return '–';
  for (const [limit, letter] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
    if (value >= limit) return `${(value / limit).toPrecision(3)} ${letter}`;
  return String(value);
}
export const bytes = (value) => value === null || value === undefined ? '–' : `${count(value)}${value >= 1e3 ? 'B' : ' B'}`;
export const number = (value) => typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)).toString() : String(value);

export function table(heads, rows, numeric = []) {
  const kind = (i) => numeric.includes(i) ? 'number' : '';
  return el('div', {class: 'table-box', tabIndex: 0, role: 'region', ariaLabel: heads.join(', ')}, el('table', {},
    el('thead', {}, el('tr', {}, heads.map((head, i) => el('th', {class: kind(i), scope: 'col'}, head)))),
    el('tbody', {}, rows.map((row) => el('tr', {}, row.map((cell, i) => el('td', {class: kind(i)}, cell)))))));
}

export function save(name, data, type = 'application/octet-stream') {
  const url = URL.createObjectURL(new Blob([data], {type}));
  const link = el('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
