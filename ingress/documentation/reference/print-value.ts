/** How a language writes values. */
type Notation = {
  name(key: string): string;
  text(value: string): string;
  /** How it writes `true`, `false` and `null`. */
  constant(value: boolean | null): string;
  /** Between a bracket and what is in it on the same line. */
  padding: string;
  /** After the last item, if each is on a line of its own. */
  trailing: string;
};

/** Code that a value contains unchanged. */
export class Expression {
  readonly code: string;
  constructor(code: string) {
    this.code = code;
  }
}

/** Fits beside the text on a wide screen. */
const lineMax = 56;
const asJson = (value: unknown) => JSON.stringify(value);

export const jsonNotation: Notation = {
  name: (key) => `${asJson(key)}: `,
  text: asJson,
  constant: String,
  padding: '',
  trailing: '',
};

export const scriptNotation: Notation = {
  name: (key) => `${/^[A-Za-z_]\w*$/.test(key) ? key : singleQuoted(key)}: `,
  text: singleQuoted,
  constant: String,
  padding: ' ',
  trailing: ',',
};

export const pythonNotation: Notation = {
  name: (key) => `${asJson(key)}: `,
  text: asJson,
  constant: (value) => ({ true: 'True', false: 'False', null: 'None' })[`${value}`],
  padding: '',
  trailing: ',',
};

function singleQuoted(text: string): string {
  const escaped = asJson(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'");
  return `'${escaped}'`;
}

/** `indent` is that of the line on which the value begins, `before` the number of characters between. */
type Place = { notation: Notation; indent: string; step: string; before?: number };

/** A value of JSON as code: on one line if it fits, else with one item on each line. */
export function printValue(value: unknown, place: Place): string {
  const { notation, indent, step } = place;
  if (value instanceof Expression) return value.code;
  if (typeof value === 'string') return notation.text(value);
  if (typeof value === 'number') return String(value);
  if (typeof value === 'boolean') return notation.constant(value);
  if (typeof value !== 'object' || value === null) return notation.constant(null);
  const inner = { notation, step, indent: indent + step };
  if (Array.isArray(value))
    return enclose(
      value.map((item) => printValue(item, inner)),
      { ...place, brackets: '[]' },
    );
  const fields = Object.entries(value).map(([key, item]) => {
    const name = notation.name(key);
    return name + printValue(item, { ...inner, before: name.length });
  });
  return enclose(fields, { ...place, brackets: '{}' });
}

type Enclosure = Place & { brackets: string };

/** Items in brackets, as `printValue` writes them. */
export function enclose(items: readonly string[], { brackets, notation, indent, step, before = 0 }: Enclosure): string {
  const [open = '', close = ''] = brackets;
  const padding = open === '{' ? notation.padding : '';
  const line = items.length === 0 ? open + close : `${open}${padding}${items.join(', ')}${padding}${close}`;
  if (indent.length + before + line.length <= lineMax && !line.includes('\n')) return line;
  const lines = items.map((item) => indent + step + item);
  return `${open}\n${lines.join(',\n')}${notation.trailing}\n${indent}${close}`;
}

export function printJson(value: unknown): string {
  return printValue(value, { notation: jsonNotation, indent: '', step: '  ' });
}
