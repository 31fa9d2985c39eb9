/** Returns a function that makes a value from an object once, and remembers it for as long as that object is used. */
export function oncePerObject<Given extends object, Value>(make: (given: Given) => Value): (given: Given) => Value {
  const made = new WeakMap<Given, { value: Value }>();
  return function makeOnce(given) {
    const known = made.get(given) ?? { value: make(given) };
    made.set(given, known);
    return known.value;
  };
}
