type CamelName<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelName<Tail>>}` : Name;
export type Camel<T> = T extends readonly (infer Item)[]
  ? readonly Camel<Item>[]
  : T extends object
    ? { readonly [Key in keyof T as CamelName<Key>]: Camel<T[Key]> }
    : T;

/** Their keys are names that the operator has chosen. */
export const namedSections = new Set(['plans', 'models', 'aliases', 'backends', 'prices', 'headers', 'query']);

/** Returns a frozen copy whose objects have no prototype, so that looking up a model named `constructor` finds nothing. */
export function camelCase<T>(value: T, keysAreNames = false): Camel<T> {
  if (Array.isArray(value)) return Object.freeze(value.map((item) => camelCase(item))) as Camel<T>;
  if (typeof value !== 'object' || value === null) return value as Camel<T>;
  const copy = Object.create(null);
  for (const [key, item] of Object.entries(value)) {
    const camelKey = keysAreNames ? key : key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    copy[camelKey] = camelCase(item, namedSections.has(key) && !keysAreNames);
  }
  return Object.freeze(copy);
}
