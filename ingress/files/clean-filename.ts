const charactersMax = 255;

/**
 * A file's name as its client gave it, without the folders it may have stood in, without control characters and halves of
 * characters, which not every store can keep, and of at most 255 characters. Empty where nothing is left.
 */
export function cleanFilename(given: string): string {
  const name = given.slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1);
  const clean = [...name.replace(/[\p{Cc}\p{Cs}]/gu, '')].slice(0, charactersMax).join('');
  return clean === '.' || clean === '..' ? '' : clean;
}
