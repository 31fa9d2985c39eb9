/** An object of parsed JSON. */
export type Json = Readonly<Record<string, unknown>>;

/** Returns whether a parsed JSON value is an object, and not an array or `null`. */
export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
