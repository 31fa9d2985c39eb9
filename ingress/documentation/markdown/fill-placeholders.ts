/** The value of each `{{name}}` by its name. */
export type Placeholders = Readonly<Record<string, string>>;

/** Replaces each `{{name}}` by its value. Throws for an unknown name. */
export function fillPlaceholders(text: string, values: Placeholders): string {
  return text.replace(/\{\{(.*?)\}\}/g, (_whole, name: string) => {
    if (!Object.hasOwn(values, name)) throw new Error(`There is no placeholder "${name}".`);
    return values[name] ?? '';
  });
}
