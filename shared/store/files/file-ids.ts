/** `file-` and 26 characters of Crockford's base 32, as in a ULID: they have no special meaning in a path. */
const fileId = /^file-[0-9A-HJKMNP-TV-Z]{26}$/;

export function isFileId(id: string): boolean {
  return fileId.test(id);
}
