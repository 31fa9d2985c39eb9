/** What is known of a heading: `code` where it is one code span and nothing else. */
export type HeadingText = { text: string; depth: number; code: boolean };

/**
 * Gives each heading of a page an id of its own, in the order they stand. A code span keeps its text, letter for letter, so that
 * `#rate_limit_exceeded` is where its code says; any other is lower-case words with hyphens. One that is taken already has the id of the
 * heading it stands under in front, so that it stays the same when others are added elsewhere.
 */
export function createHeadingIds(): (heading: HeadingText) => string {
  const taken = new Set<string>(['content']); // the id of the page's <main>
  const above: string[] = [];

  return function headingId({ text, depth, code }) {
    const own = code ? text : slugOf(text);
    const parent = above.slice(0, depth - 1).findLast((id) => id !== undefined);
    const wanted = taken.has(own) && parent !== undefined ? `${parent}-${own}` : own;
    let id = wanted;
    for (let number = 2; taken.has(id); number++) id = `${wanted}-${number}`;
    taken.add(id);
    above.length = depth - 1;
    above[depth - 1] = id;
    return id;
  };
}

function slugOf(text: string): string {
  const words = text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? ['section'];
  return words.join('-');
}
