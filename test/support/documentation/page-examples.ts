import { marked, type Token } from 'marked';

/** The purpose of a fenced block of a page, by the word after its language. */
export type Example = { text: string; under: string } & (
  | { role: 'run'; language: 'sh' | 'ts' | 'python' }
  | { role: 'output'; language: 'json' | 'text' }
  | { role: 'error' | 'frame' | 'answer'; about: string }
  | { role: 'ending'; about: string; path: string }
  | { role: 'client'; language: string; client: string; file: string }
  | {
      role:
        | 'stream'
        | 'line'
        | 'plan'
        | 'backends'
        | 'agents'
        | 'unrun'
        | 'settings'
        | 'query'
        | 'diagram'
        | 'memory'
        | 'manifest'
        | 'proxy'
        | 'shards'
        | 'rights'
        | 'backup'
        | 'restore';
    }
);

const runnable = ['sh', 'ts', 'python'] as const;

/** Every block of code on a page, in order. Throws for a block without a purpose that can be checked. */
export function examplesOf(markdown: string): Example[] {
  const examples: Example[] = [];
  let under = '';
  marked.walkTokens(marked.lexer(markdown), (token: Token) => {
    if (token.type === 'heading') under = token.text;
    if (token.type === 'code') examples.push(exampleOf(token.text, token.lang ?? '', under));
  });
  for (const [index, { role }] of examples.entries()) {
    if (role === 'output' && examples[index - 1]?.role !== 'run')
      throw new Error(`output without a command, under "${under}"`);
  }
  return examples;
}

function exampleOf(text: string, info: string, under: string): Example {
  const [language = '', role = '', about = '', path = ''] = info.split(' ');
  if (role === 'client' && about !== '') return { text, under, role, language, client: about, file: path };
  if (language !== '' && role === 'unrun') return { text, under, role };
  const known = runnable.find((name) => name === language);
  if (known !== undefined && role === 'run') return { text, under, role, language: known };
  if ((language === 'json' || language === 'text') && role === 'output') return { text, under, role, language };
  if (language === 'json' && (role === 'error' || role === 'frame')) return { text, under, role, about };
  if (language === 'json' && role !== '') return { text, under, role: 'answer', about: role };
  if (language === 'text' && role === 'ending') return { text, under, role, about, path };
  if (info === 'toml settings' || info === 'sh settings') return { text, under, role: 'settings' };
  if (info === 'text stream') return { text, under, role: 'stream' };
  if (info === 'jsonl line') return { text, under, role: 'line' };
  if (info === 'yaml plan') return { text, under, role: 'plan' };
  if (info === 'yaml backends') return { text, under, role: 'backends' };
  if (info === 'yaml agents') return { text, under, role: 'agents' };
  if (info === 'text diagram') return { text, under, role: 'diagram' };
  if (info === 'promql query') return { text, under, role: 'query' };
  if (info === 'sh rights') return { text, under, role: 'rights' };
  if (info === 'sh backup') return { text, under, role: 'backup' };
  if (info === 'sh restore') return { text, under, role: 'restore' };
  if (info === 'js shards') return { text, under, role: 'shards' };
  if (info === 'sh memory' || info === 'text memory') return { text, under, role: 'memory' };
  if (/^\S+ proxy \S+$/.test(info)) return { text, under, role: 'proxy' };
  if (/^(yaml|dockerfile|sh) manifest$|^yaml (values|plans|chart)$/.test(info))
    return { text, under, role: 'manifest' };
  throw new Error(`a block under "${under}" is neither run nor checked: "${info}"`);
}
