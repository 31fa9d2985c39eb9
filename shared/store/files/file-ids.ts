/** `file-` and 26 characters of Crockford's base 32, as ULID has it: nothing that a path could mean otherwise. */
const fileId = /^file-[0-9A-HJKMNP-TV-Z]{26}$/;

export function isFileId(id: string): boolean {
  return fileId.test(id);
}
