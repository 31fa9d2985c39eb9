/**
 * Differences of this value from the example, empty if it fits. `…` in a text is any text; a number is any number; an object has exactly
 * the names that are shown; a list has the items that are shown, and more if the last one is `…`.
 */
export function misfits(shown: unknown, value: unknown, path = '$'): string[] {
  if (typeof shown === 'string')
    return typeof value === 'string' && textFits(shown, value) ? [] : [mismatch(path, value)];
  if (typeof shown === 'number') return typeof value === 'number' ? [] : [mismatch(path, value)];
  if (Array.isArray(shown)) return Array.isArray(value) ? listMisfits(shown, value, path) : [mismatch(path, value)];
  if (typeof shown === 'object' && shown !== null) return objectMisfits(shown, value, path);
  return shown === value ? [] : [mismatch(path, value)];
}

/** Whether a text matches the shown one. `…` stands for any text, and white space at the ends is ignored. */
export function textFits(shown: string, text: string): boolean {
  const parts = shown
    .trim()
    .split('…')
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*?')}$`, 's').test(text.trim());
}

function listMisfits(shown: readonly unknown[], value: readonly unknown[], path: string): string[] {
  const continues = shown.at(-1) === '…';
  const items = continues ? shown.slice(0, -1) : shown;
  if (continues ? value.length < items.length : value.length !== items.length) return [mismatch(path, value)];
  return items.flatMap((item, index) => misfits(item, value[index], `${path}[${index}]`));
}

function objectMisfits(shown: object, value: unknown, path: string): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [mismatch(path, value)];
  const names = [...new Set([...Object.keys(shown), ...Object.keys(value)])];
  const fields = value as Record<string, unknown>; // an object, as checked
  return names.flatMap((name) =>
    Object.hasOwn(shown, name) && Object.hasOwn(value, name)
      ? misfits((shown as Record<string, unknown>)[name], fields[name], `${path}.${name}`)
      : [`${path}.${name} is ${Object.hasOwn(value, name) ? 'not shown' : 'missing'}`],
  );
}

function mismatch(path: string, value: unknown): string {
  return `${path} is ${JSON.stringify(value)?.slice(0, 300)}`;
}
