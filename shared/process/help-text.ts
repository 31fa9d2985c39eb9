import { readFileSync } from 'node:fs';
import { serviceVersion } from './metrics.ts';
import { settingDefaults } from './settings.ts';

export type ProcessName = 'ingress' | 'worker';

const processes: Record<ProcessName, { file: string; work: string }> = {
  ingress: {
    file: 'ingress/main.ts',
    work: 'turns HTTP requests into jobs, and replies of workers into HTTP responses',
  },
  worker: { file: 'workers/main.ts', work: 'takes jobs from the queue, calls model servers, and sends replies' },
};

const page = 'ingress/documentation/configuration.md';

/** What `--help` prints: each setting of a process, with its default and the beginning of what the page says of it. */
export function helpText(name: ProcessName): string {
  const { file, work } = processes[name];
  const documented = settingsOnPage();
  const lines = [...settingDefaults[name]].map(([setting, text]) => {
    const { fallback = '', meaning = '' } = documented.get(setting) ?? {};
    const shown = text === '' ? fallback : text;
    return { isRequired: text === 'required', line: `  ${setting}${suffixOf(shown)}\n      ${meaning}\n` };
  });
  const linesOf = (isRequired: boolean) =>
    lines.flatMap((each) => (each.isRequired === isRequired ? each.line : [])).join('');
  return `The ${name} of inference-service ${serviceVersion()} ${work}.

  node --env-file=.env ${file}

Its settings are variables of its environment. .env.example is a template. An ingress serves the documentation at /docs;
${page} explains every setting, and the plan file.

Required:
${linesOf(true)}
Optional, with their defaults:
${linesOf(false)}`;
}

function suffixOf(text: string): string {
  return text === 'required' ? '' : ` (${text})`;
}

/** The rows of the table of settings: a row can have several of them, with as many defaults. The meaning is its first sentence or clause. */
function settingsOnPage(): Map<string, { fallback: string; meaning: string }> {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
  const rows = text.matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| \w+ \| ([^|]*) \| (.*) \|$/gm);
  return new Map(
    [...rows].flatMap(([, names = '', defaults = '', meaning = '']) => {
      const [first = ''] = plain(meaning).split(/[;.] /);
      return plain(names)
        .split(', ')
        .map((name) => [name, { fallback: plain(defaults), meaning: first }] as const);
    }),
  );
}

/** Without the marks of Markdown, and without what is in parentheses. */
function plain(markdown: string): string {
  const text = markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '');
  return text.replace(/ \([^)]*\)/g, '');
}
