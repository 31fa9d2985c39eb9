import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import test from 'ava';
import { marked } from 'marked';
import { readPages } from '../ingress/documentation/page-list.ts';
import { renderMarkdown } from '../ingress/documentation/render-markdown.ts';
import { projectFiles } from './support/source-files.ts';

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

/** Files whose headings GitHub shows. */
const githubFiles = ['README.md', '.github/CONTRIBUTING.md', '.github/SECURITY.md'];

/** The ids of headings by the file's name. */
const headings = new Map([
  ...readPages().map(({ name, markdown }) => [`${basename(name)}.md`, idsOf(markdown)] as const),
  ...githubFiles.map((path) => [basename(path), githubIdsOf(read(path))] as const),
]);

function idsOf(markdown: string): Set<string> {
  return new Set(renderMarkdown(markdown, { hrefOf: (page) => page }).sections.map(({ id }) => id));
}

/** GitHub removes punctuation and makes each space a hyphen. */
function githubIdsOf(markdown: string): Set<string> {
  const titles = marked.lexer(markdown).flatMap((token) => (token.type === 'heading' ? [String(token.text)] : []));
  const slugOf = (title: string) => title.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '');
  return new Set(titles.map((title) => slugOf(title).replaceAll(' ', '-')));
}

/** Links to headings in a text, as `<file>.md#<heading>`. */
function linksIn(text: string): { link: string; file: string; id: string }[] {
  return [...text.matchAll(/([\w-]+\.md)#([\p{L}\p{N}_-]+)/gu)].map(([link, file = '', id = '']) => ({
    link,
    file,
    id,
  }));
}

function brokenLinksIn(text: string): string[] {
  return linksIn(text).flatMap(({ link, file, id }) => (headings.get(file)?.has(id) ? [] : [link]));
}

const searched =
  /^(README\.md$|docker-compose\.yml$|\.|(ingress|workers|shared|test)\/.*\.(ts|mjs|lua|css|py|yaml|yml)$)/;

test('every link to a heading in the source leads to an existing heading', (t) => {
  t.is(headings.size, readPages().length + githubFiles.length, 'no two files have the same name');
  const files = projectFiles().filter((path) => searched.test(path));
  t.true(files.length > 500);
  const broken = files.flatMap((path) => brokenLinksIn(read(path)).map((link) => `${path}: ${link}`));
  t.deepEqual(broken, []);
});

test('a link to a missing heading or file is found', (t) => {
  const [page, missing] = ['contract.md', 'nothing.md'];
  const text = [
    `// See ${page}#c8-revocation.`,
    `-- ${page}#c8-revocations`,
    `See [it](../${page}#C8) and internals/${page}#t4-basic-errors.`,
    `'${missing}#c8-revocation'`,
    `README.md#`,
  ].join('\n');
  t.deepEqual(brokenLinksIn(text), [`${page}#c8-revocations`, `${page}#C8`, `${missing}#c8-revocation`]);
});

test('every rule of the contract has a unique number and a short title', (t) => {
  const [, ...sections] = read('ingress/documentation/internals/contract.md').split(/^(?=## )/m);
  const numbers = sections.flatMap((section) => {
    const [, letter = ''] = /^## ([A-Z]{1,2})\. \S/.exec(section) ?? [];
    const titles = [...section.matchAll(/^### (.*)$/gm)].map(([, title = '']) => title);
    for (const title of titles) t.regex(title, new RegExp(`^${letter}[1-9]\\d?( [\\w-]+){1,4}$`), `under ${letter}`);
    return titles.map((title) => title.split(' ')[0]);
  });
  t.true(numbers.length > 100);
  t.is(new Set(numbers).size, numbers.length);
});

/** Paths of files and folders of the project in a text. */
function pathsIn(text: string): string[] {
  const path =
    /(?<![\w./-])(?:ingress|workers|shared|test)\/[\w./-]*(?:\w\/|\.(?:ts|mjs|lua|css|md|py|yaml|json|svg)\b)/g;
  return [...text.matchAll(path)].map(([found]) => found);
}

test('every path of this project that a comment or a page names exists', (t) => {
  const files = projectFiles();
  const known = new Set(files.flatMap((path) => [path, ...foldersAbove(path)]));
  const named =
    /^(README\.md|\.github\/|ingress\/documentation\/(?!changelog)|\.env\.example$|(ingress|workers|shared)\/)/;
  const texts = files.filter((path) => named.test(path) && /\.(md|ts|mjs|lua|css|example)$/.test(path));
  t.true(texts.length > 400);
  const missing = texts.flatMap((path) =>
    pathsIn(read(path)).flatMap((name) => (known.has(name) ? [] : [`${path}: ${name}`])),
  );
  t.deepEqual(missing, []);
  t.deepEqual(pathsIn('see `shared/limits/admit.lua`, workers/queue/ and https://a.test/shared/x.ts'), [
    'shared/limits/admit.lua',
    'workers/queue/',
  ]);
});

function foldersAbove(path: string): string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, index) => `${parts.slice(0, index + 1).join('/')}/`);
}
