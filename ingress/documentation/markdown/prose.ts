import { Marked } from 'marked';
import { searchableText } from './plain-text.ts';
import { type HrefOf, safeRenderer } from './safe-renderer.ts';

/** Short texts in Markdown without headings and code blocks, such as the descriptions in an OpenAPI document. */
export type Prose = {
  /** HTML of paragraphs and lists. */
  blocks(markdown: string): string;
  /** HTML of one line. */
  line(markdown: string): string;
  /** The text without markup. */
  text(markdown: string): string;
};

export function createProse(hrefOf: HrefOf): Prose {
  const marked = new Marked({ gfm: true, async: false });
  marked.use({ renderer: safeRenderer(hrefOf) });
  return {
    blocks: (markdown) => marked.parse(markdown) as string, // it is not asynchronous
    line: (markdown) => marked.parseInline(markdown) as string, // as above
    text: (markdown) => searchableText(marked.lexer(markdown)),
  };
}
