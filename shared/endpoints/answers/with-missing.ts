type Json = Readonly<Record<string, unknown>>;

/**
 * Returns the object with these properties where it lacks them: the object itself if it has all. Null is a value only where it also stands
 * for a missing one (contract.md#ms9-what-is-skipped).
 */
export function withMissing<T extends Json>(value: T, required: Json): T {
  for (const name in required) if (lacks(value, required, name)) return filled(value, required);
  return value;
}

function filled<T extends Json>(value: T, required: Json): T {
  const missing = Object.entries(required).filter(([name]) => lacks(value, required, name));
  return { ...required, ...value, ...Object.fromEntries(missing) };
}

function lacks(value: Json, required: Json, name: string): boolean {
  return value[name] === undefined || (value[name] === null && required[name] !== null);
}

/** Returns the list with each item changed: the list itself if no item changes. */
export function mapped<T>(list: readonly T[], change: (item: T, index: number) => T): readonly T[] {
  const changed = list.map(change);
  return changed.every((item, index) => item === list[index]) ? list : changed;
}

/** Returns the object with this field as a text: JSON of any other value. */
export function withText<T extends Json>(value: T, field: string): T {
  const { [field]: given } = value;
  return given == null || typeof given === 'string' ? value : { ...value, [field]: JSON.stringify(given) };
}
