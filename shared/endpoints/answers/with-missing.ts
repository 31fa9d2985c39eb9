type Json = Readonly<Record<string, unknown>>;

/** Returns the object with these properties where it lacks them: the object itself if it has all. */
export function withMissing<T extends Json>(value: T, required: Json): T {
  for (const name in required) if (value[name] === undefined) return { ...required, ...value };
  return value;
}

/** Returns the list with each item changed: the list itself if no item changes. */
export function mapped<T>(list: readonly T[], change: (item: T, index: number) => T): readonly T[] {
  const changed = list.map(change);
  return changed.every((item, index) => item === list[index]) ? list : changed;
}
