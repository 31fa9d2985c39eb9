import type { Token, Tokens } from 'marked';

/** The same example in several languages: each variant has its code, and the output of that code if the page shows it. */
export type Variants = { type: 'variants'; raw: string; variants: readonly Variant[] };
export type Variant = { name: string; blocks: Tokens.Code[] };

/** What readers choose between, by the language of the code. */
const names: Readonly<Record<string, string>> = { sh: 'curl', ts: 'Node', python: 'Python' };

/**
 * Replaces code blocks that follow each other, in different languages, by one token. Only blocks that a reader runs are variants; output
 * belongs to the block before it. In the Markdown file these are plain blocks one below the other.
 */
export function groupVariants(tokens: readonly Token[]): Token[] {
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
export function roleOf(token: Token): { language: string; role: string } {
  const [language = '', role = ''] = token.type === 'code' ? (token.lang ?? '').split(' ') : [];
  return { language, role };
}
