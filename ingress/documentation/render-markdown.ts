import { Marked, type RendererExtension, type RendererObject, type Token, type Tokens } from 'marked';
import { codeBlock, createRegionNames, escapeHtml, variantBlocks } from './code-block.ts';

/** A heading of a page; `text` has no markup. `content` is the searchable text up to the next heading. */
export type Section = { id: string; text: string; depth: number; content: string };

/** `title` is the text of the first-level heading, `sections` are all other headings, and `content` is the text before them. */
export type RenderedPage = { title: string; html: string; sections: Section[]; content: string };

type Wishes = {
  /** Applied to text, code and addresses before they are written. */
  fill?: (text: string) => string;
  hrefOf: HrefOf;
  /** The SVG of a drawing beside the pages, which stands in the page instead of its description. */
  drawingAt?: (path: string) => string;
};

/**
 * Renders a page to HTML that contains only the markup of Markdown: HTML tags in it become text, and links with other schemes become plain
 * text. Each heading has an id and links to itself. Code blocks and tables are regions that can be scrolled by keyboard, each
 * named for the heading above it. The same example in several languages is one group.
 */
export function renderMarkdown(markdown: string, { fill = (text) => text, hrefOf, drawingAt }: Wishes): RenderedPage {
  const marked = new Marked({ gfm: true });
  const tokens = marked.lexer(markdown);
  marked.walkTokens(tokens, (token) => fillToken(token, fill));
  const headings = listHeadings(tokens);
  const regionName = createRegionNames();
  let under = '';

  marked.use({
    extensions: [variantsRenderer],
    renderer: {
      ...safeRenderer(hrefOf),
      image: ({ href, text }) => (drawingAt === undefined ? escapeHtml(text) : drawing(drawingAt(href), text)),
      heading(token) {
        const { id, text } = headings.get(token) ?? { id: '', text: '' };
        under = text;
        const content = this.parser.parseInline(token.tokens);
        return `<h${token.depth} id="${escapeHtml(id)}"><a href="#${escapeHtml(id)}">${content}</a></h${token.depth}>\n`;
      },
      code: (token) =>
        codeBlock({ code: token.text, language: roleOf(token).language, name: regionName('Code', under) }),
      table({ header, rows }) {
        const cells = (of: Tokens.TableCell[], tag: string) =>
          of.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag.slice(0, 2)}>`).join('');
        const lines = rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n');
        const name = escapeHtml(regionName('Table', under));
        const head = `<thead><tr>${cells(header, 'th scope="col"')}</tr></thead>`;
        return `<div class="scroll" role="region" tabindex="0" aria-label="${name}"><table>${head}<tbody>${lines}</tbody></table></div>\n`;
      },
    },
  });
  const html = marked.parser(groupVariants(tokens));
  const [title, ...sections] = headings.values();
  return { title: title?.text ?? '', html, sections, content: title?.content ?? '' };
}

/** A drawing with its description, for those who cannot see it. On a narrow screen it can be scrolled, also by keyboard. */
function drawing(svg: string, description: string): string {
  return `<span class="drawing" role="img" tabindex="0" aria-label="${escapeHtml(description)}">${svg.trim()}</span>`;
}

const variantsRenderer: RendererExtension = {
  name: 'variants',
  renderer(token) {
    const { variants } = token as Variants; // as its name says
    return variantBlocks(variants.map(({ name, blocks }) => ({ name, html: this.parser.parse(blocks) })));
  },
};

function fillToken(token: Token, fill: (text: string) => string): void {
  if ((token.type === 'text' && token.tokens === undefined) || token.type === 'code' || token.type === 'codespan') {
    token.text = fill(token.text);
  } else if (token.type === 'link') {
    token.href = fill(token.href);
  }
}

function listHeadings(tokens: readonly Token[]): Map<Token, Section> {
  const headingId = createHeadingIds();
  const positions = tokens.flatMap((token, index) => (token.type === 'heading' ? [index] : []));
  return new Map(
    positions.map((position, index) => {
      const token = tokens[position] as Tokens.Heading; // as its type says
      const { depth, tokens: parts } = token;
      const text = plainText(parts);
      const id = headingId({ text, depth, code: parts.length === 1 && parts[0]?.type === 'codespan' });
      const content = searchableText(tokens.slice(position + 1, positions[index + 1]));
      return [token, { id, text, depth, content }];
    }),
  );
}

/** Short texts in Markdown without headings and code blocks, such as the descriptions in an OpenAPI document. */
export function createProse(hrefOf: HrefOf) {
  const marked = new Marked({ gfm: true, async: false });
  marked.use({ renderer: safeRenderer(hrefOf) });
  return {
    /** HTML of paragraphs and lists. */
    blocks: (markdown: string): string => marked.parse(markdown) as string, // it is not asynchronous
    /** HTML of one line. */
    line: (markdown: string): string => marked.parseInline(markdown) as string, // as above
    /** The text without markup. */
    text: (markdown: string): string => searchableText(marked.lexer(markdown)),
  };
}

export type Prose = ReturnType<typeof createProse>;

/** The value of each `{{name}}` by its name. */
export type Placeholders = Readonly<Record<string, string>>;

/** Replaces each `{{name}}` by its value. Throws for an unknown name. */
export function fillPlaceholders(text: string, values: Placeholders): string {
  return text.replace(/\{\{(.*?)\}\}/g, (_whole, name: string) => {
    if (!Object.hasOwn(values, name)) throw new Error(`There is no placeholder "${name}".`);
    return values[name] ?? '';
  });
}

/** Returns the address of another page; `page` is the relative path of its file without `.md`. */
type HrefOf = (page: string) => string;

const otherPage = /^((?:\.\.\/|[\w-]+\/)*[\w-]+)\.md(#.*)?$/;
const comment = /^<!--(?:(?!-->)[\s\S])*-->\s*$/;
const followed = /^(https?:\/\/|#|\/(?!\/))/;

/** Writes only the markup of Markdown: HTML tags become text, and links with schemes other than HTTP become plain text. */
function safeRenderer(hrefOf: HrefOf): RendererObject {
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

/** `code`: the heading is a single code span. */
type HeadingText = { text: string; depth: number; code: boolean };

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

/** The same example in several languages: each variant has its code, and the output of that code if the page shows it. */
type Variants = { type: 'variants'; raw: string; variants: readonly Variant[] };
type Variant = { name: string; blocks: Tokens.Code[] };

/** What readers choose between, by the language of the code. */
const names: Readonly<Record<string, string>> = { sh: 'curl', ts: 'Node', python: 'Python' };

/**
 * Replaces code blocks that follow each other, in different languages, by one token. Only blocks that a reader runs are variants; output
 * belongs to the block before it. In the Markdown file these are plain blocks one below the other.
 */
function groupVariants(tokens: readonly Token[]): Token[] {
  const grouped: Token[] = [];
  let group: Variant[] = [];
  const finish = () => {
    grouped.push(...(group.length > 1 ? [asToken(group)] : group.flatMap(({ blocks }) => blocks)));
    group = [];
  };
  for (const token of tokens) {
    if (token.type === 'space' && group.length > 0) continue;
    const { language, role } = roleOf(token);
    const name = role === 'run' ? names[language] : undefined;
    if (name !== undefined) {
      if (group.some((variant) => variant.name === name)) finish();
      group.push({ name, blocks: [token as Tokens.Code] }); // only code has a role
    } else if (role === 'output' && group.length > 0) {
      group.at(-1)?.blocks.push(token as Tokens.Code); // as above
    } else {
      finish();
      grouped.push(token);
    }
  }
  finish();
  return grouped;
}

function asToken(variants: readonly Variant[]): Variants {
  return { type: 'variants', raw: '', variants };
}

/** The language and the role of a code block, which are the first two words after its fence. */
function roleOf(token: Token): { language: string; role: string } {
  const [language = '', role = ''] = token.type === 'code' ? (token.lang ?? '').split(' ') : [];
  return { language, role };
}

/** The text of inline tokens, without markup. */
function plainText(tokens: readonly Token[]): string {
  return tokens
    .map((token) => ('tokens' in token && token.tokens ? plainText(token.tokens) : (token as Tokens.Text).text))
    .join('');
}

/**
 * What a reader may search for in block tokens: their text, and the shown bodies of errors, because people search for messages. Other code
 * is left out: it repeats what the text explains.
 */
function searchableText(tokens: readonly Token[]): string {
  return tokens.map(textOfBlock).filter(Boolean).join(' ').replace(/\s+/g, ' ');
}

function textOfBlock(token: Token): string {
  if (token.type === 'code') return roleOf(token).role === 'error' ? token.text : '';
  if (token.type === 'table') {
    const { header, rows } = token as Tokens.Table; // as its type says
    return [header, ...rows].flatMap((row) => row.map((cell) => plainText(cell.tokens))).join(' ');
  }
  if (token.type === 'list') return (token as Tokens.List).items.map((item) => searchableText(item.tokens)).join(' '); // as its type says
  if (token.type === 'html' || token.type === 'space' || token.type === 'hr') return '';
  return 'tokens' in token && token.tokens ? plainText(token.tokens) : (token as Tokens.Text).text;
}
