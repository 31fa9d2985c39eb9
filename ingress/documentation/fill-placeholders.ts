/** The addresses that pages name: what `{{name}}` stands for, by its name. */
export type Placeholders = Readonly<Record<string, string>>;

/** Puts the value of each `{{name}}` in its place, as it is; throws for a name that there is not. */
export function fillPlaceholders(text: string, values: Placeholders): string {
  return text.replace(/\{\{(.*?)\}\}/g, (_whole, name: string) => {
    if (!Object.hasOwn(values, name)) throw new Error(`There is no place-holder "${name}".`);
    return values[name] ?? '';
  });
}
