import { isObject } from '../../is-object.ts';

/**
 * Returns which keywords of a JSON schema hold a client's regular expressions: `pattern` and `patternProperties`. A schema is an object, or
 * its JSON as a string, which some model servers accept. Each value is visited once. A string is searched and not parsed, so a string with
 * escaped letters, which no serializer writes, counts as having a `pattern`.
 */
export function schemaPatterns(schema: unknown): ReadonlySet<string> {
  const found = new Set<string>();
  if (typeof schema === 'string') searchText(schema, found);
  else searchValue(schema, found);
  return found;
}

function searchValue(value: unknown, found: Set<string>): void {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      // An enumeration can have a million numbers.
      if (typeof value[index] === 'object') searchValue(value[index], found);
    }
  } else if (isObject(value)) {
    for (const name in value) {
      const member = value[name];
      // A property may also have one of these names: its value is then a schema.
      if (name === 'pattern' && typeof member === 'string') found.add(name);
      if (name === 'patternProperties' && typeof member === 'object' && member !== null) found.add(name);
      if (typeof member === 'object') searchValue(member, found);
    }
  }
}

function searchText(text: string, found: Set<string>): void {
  if (/"pattern"\s*:\s*"|\\u00[4-7][0-9a-f]/i.test(text)) found.add('pattern');
  if (/"patternProperties"\s*:\s*\{/.test(text)) found.add('patternProperties');
}
