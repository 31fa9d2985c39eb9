import type { Token, Tokens } from 'marked';
import { roleOf } from './group-variants.ts';

/** The text of inline tokens, without markup. */
export function plainText(tokens: readonly Token[]): string {
  return tokens
    .map((token) => ('tokens' in token && token.tokens ? plainText(token.tokens) : (token as Tokens.Text).text))
    .join('');
}

/**
 * What a reader may search for in block tokens: their text, and the shown bodies of errors, because people search for messages. Other code
 * is left out: it repeats what the text explains.
 */
export function searchableText(tokens: readonly Token[]): string {
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
