const charactersMax = 255;

/** Always removed: control characters, lone surrogates (not every store can keep them), line separators, annotation marks. */
const unprintable = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\uFFF9-\uFFFB]/u;
/** Invisible: direction marks, which can show `fdp.exe` as `exe.pdf`, zero-width spaces, tags, joiners, variation selectors. */
const invisible = /\p{Default_Ignorable_Code_Point}/u;

/** Scripts whose letters join or form clusters. In other scripts, a joiner only makes two different names look the same. */
const joining =
  /[[\p{L}\p{M}]--[\p{scx=Latin}\p{scx=Greek}\p{scx=Cyrillic}\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Inherited}\p{scx=Common}]]/v;

/** Invisible characters that change the appearance of the character before them, with the characters that they can follow. */
const modifiers: readonly (readonly [character: RegExp, after: RegExp])[] = [
  [/[\u200C\u200D]/u, joining],
  [/\u200D/u, /[\p{Extended_Pictographic}\p{Emoji_Modifier}]|\uFE0F/u],
  [/[\uFE0E\uFE0F]/u, /\p{Emoji}/u],
  [/[\uFE00-\uFE02\u{E0100}-\u{E01EF}]/u, /\p{Script=Han}/u],
  [/[\u180B-\u180D\u180F]/u, /\p{Script=Mongolian}/u],
];

/**
 * Cleans a file name from a client: removes folders, control characters and invisible characters (joiners and variation selectors stay if a
 * script or an emoji needs them), and cuts it to 255 characters. Empty if nothing is left.
 */
export function cleanFilename(given: string): string {
  const name = given.slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1);
  const kept: string[] = [];
  for (const character of name) {
    if (kept.length === charactersMax) break;
    if (isShown(character, kept.at(-1) ?? '')) kept.push(character);
  }
  const clean = kept.join('');
  return clean === '.' || clean === '..' ? '' : clean;
}

function isShown(character: string, before: string): boolean {
  if (unprintable.test(character)) return false;
  if (!invisible.test(character)) return true;
  return modifiers.some(([modifier, after]) => modifier.test(character) && after.test(before));
}
