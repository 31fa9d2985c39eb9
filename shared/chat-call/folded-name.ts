const plainName = /^[a-z0-9_]*$/;
const nameLengthMax = 32;

/**
 * The name of a field as servers written in Go compare it (encoding/json folds by Unicode): they take a field in whatever case it
 * comes. A name of more than 32 characters is none that is looked for, and stays as it is.
 */
export function foldedName(name: string): string {
  return name.length > nameLengthMax || plainName.test(name) ? name : name.toUpperCase().toLowerCase();
}
