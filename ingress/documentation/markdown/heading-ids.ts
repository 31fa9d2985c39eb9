/** `code`: the heading is a single code span. */
export type HeadingText = { text: string; depth: number; code: boolean };

/**
 * Gives each heading of a page a unique id; call it in the order of the headings. The id of a code span is its exact text, so that
 * `#rate_limit_exceeded` links to that code. Other ids are lower-case words joined by hyphens. If an id is taken, the id of the parent
 * heading is put in front, so that the id does not change when headings are added elsewhere.
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
