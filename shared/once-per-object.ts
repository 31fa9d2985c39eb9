/** Returns a function that makes a value from an object once, and remembers it for as long as that object is used. */
export function oncePerObject<Source extends object, Value>(
  make: (source: Source) => Value,
): (source: Source) => Value {
  const made = new WeakMap<Source, { value: Value }>();
  return function makeOnce(source) {
    const known = made.get(source) ?? { value: make(source) };
    made.set(source, known);
    return known.value;
  };
}
