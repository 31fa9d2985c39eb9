const charactersMax = 255;

/** Never kept: controls, halves of characters, which not every store can keep, separators of lines, marks of annotations. */
const unprintable = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\uFFF9-\uFFFB]/u;
/** Not seen: changes of direction, which can show `fdp.exe` as `exe.pdf`, spaces without width, tags, joiners, variation selectors. */
const invisible = /\p{Default_Ignorable_Code_Point}/u;

/** Scripts whose letters join or form clusters; in the others a joiner only makes two names look the same. */
const joining =
  /[[\p{L}\p{M}]--[\p{scx=Latin}\p{scx=Greek}\p{scx=Cyrillic}\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Inherited}\p{scx=Common}]]/v;

/** The invisible characters that change how the one before them is written, and after which they do. */
const modifiers: readonly (readonly [character: RegExp, after: RegExp])[] = [
  [/[\u200C\u200D]/u, joining],
  [/\u200D/u, /[\p{Extended_Pictographic}\p{Emoji_Modifier}]|\uFE0F/u],
  [/[\uFE0E\uFE0F]/u, /\p{Emoji}/u],
  [/[\uFE00-\uFE02\u{E0100}-\u{E01EF}]/u, /\p{Script=Han}/u],
  [/[\u180B-\u180D\u180F]/u, /\p{Script=Mongolian}/u],
];

/**
 * A file's name as its client gave it, without the folders it may have stood in, without control characters and characters that
 * are not seen (joiners and variation selectors stay where a script or an emoji needs them), and of at most 255 characters. Empty
 * where nothing is left.
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
