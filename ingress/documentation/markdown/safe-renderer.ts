import type { RendererObject, Tokens } from 'marked';
import { escapeHtml } from '../../pages/escape-html.ts';

/** Returns the address of another page; `page` is the relative path of its file without `.md`. */
export type HrefOf = (page: string) => string;

const otherPage = /^((?:\.\.\/|[\w-]+\/)*[\w-]+)\.md(#.*)?$/;
const comment = /^<!--(?:(?!-->)[\s\S])*-->\s*$/;
const followed = /^(https?:\/\/|#|\/(?!\/))/;

/** Writes only the markup of Markdown: HTML tags become text, and links with schemes other than HTTP become plain text. */
export function safeRenderer(hrefOf: HrefOf): RendererObject {
  return {
    link({ href, tokens }: Tokens.Link) {
      const content = this.parser.parseInline(tokens);
      const [, page, anchor = ''] = otherPage.exec(href) ?? [];
      const target = page === undefined ? href : `${hrefOf(page)}${anchor}`;
      return followed.test(target) ? `<a href="${escapeHtml(target)}">${content}</a>` : content;
    },
    image: ({ text }: Tokens.Image) => escapeHtml(text),
    // Comments mark what is generated; any other tag is text.
    html: ({ text }: Tokens.HTML | Tokens.Tag) => (comment.test(text) ? '' : escapeHtml(text)),
  };
}
