import test from 'ava';
import { findCycle, importsOf, productionFiles, projectFiles, reachableFrom } from './support/source-files.ts';

const files = productionFiles();
const sideOf = (path: string) => path.split('/')[0] ?? '';
const pathsOf = (found: readonly { path: string }[]) => found.map(({ path }) => path);

test('imports are found in every form that the code can have', (t) => {
  const text = `
    import { a } from './a.ts';
    import type { B } from "../shared/b.ts";
    import {
      c,
    } from './c/c.ts';
    import './d.mjs';
    export { e } from './e.ts';
    const f = await import('./f.ts');
    import pino from 'pino';
    import { readFile } from 'node:fs/promises';
  `;
  t.deepEqual(importsOf('ingress/x.ts', text), [
    'ingress/a.ts',
    'shared/b.ts',
    'ingress/c/c.ts',
    'ingress/d.mjs',
    'ingress/e.ts',
    'ingress/f.ts',
  ]);
  t.true(files.length > 50, 'the production code is there to be looked at');
  const known = new Set(pathsOf(files));
  for (const { path, imports } of files) {
    for (const imported of imports) t.true(known.has(imported), `${path} imports ${imported}`);
  }
});

test('ingress and workers import shared and not each other, and shared neither', (t) => {
  const allowed: Record<string, string[]> = {
    ingress: ['ingress', 'shared'],
    workers: ['workers', 'shared'],
    shared: ['shared'],
  };
  const wrong = files.flatMap(({ path, imports }) =>
    imports
      .filter((imported) => !allowed[sideOf(path)]?.includes(sideOf(imported)))
      .map((imported) => `${path} imports ${imported}`),
  );
  t.deepEqual(wrong, []);
});

test('no file imports itself, however far around', (t) => {
  const ring = [
    { path: 'a', imports: ['b'] },
    { path: 'b', imports: ['c', 'd'] },
    { path: 'c', imports: [] },
    { path: 'd', imports: ['b'] },
  ];
  t.deepEqual(findCycle(ring), ['b', 'd', 'b']);
  t.is(findCycle(ring.slice(0, 3)), undefined);
  t.is(findCycle(files), undefined);
});

test('the environment is read in one place', (t) => {
  t.deepEqual(pathsOf(files.filter(({ text }) => /\bprocess\s*\.\s*env\b|\benv\b.*from 'node:process'/.test(text))), [
    'shared/config.ts',
  ]);
});

test('everything at the top of shared is used by both sides', (t) => {
  const entries = new Set(
    projectFiles()
      .filter((path) => path.startsWith('shared/'))
      .map((path) => path.split('/')[1] ?? ''),
  );
  for (const side of ['ingress', 'workers']) {
    const starts = pathsOf(files.filter(({ path }) => sideOf(path) === side));
    const used = new Set([...reachableFrom(files, starts)].map((path) => path.split('/').slice(0, 2).join('/')));
    const unused = [...entries].filter((entry) => !used.has(`shared/${entry}`));
    t.deepEqual(unused, [], `not used by ${side}`);
  }
});

test('errors are written to HTTP in one place of each listener', (t) => {
  const writers = pathsOf(files.filter(({ text }) => /\berrorBody\b/.test(text)));
  t.deepEqual(writers.sort(), [
    'ingress/middleware/answer-errors.ts',
    'shared/errors.ts', // where it is defined
    'shared/operations.ts',
  ]);
});

test('no file of production code is longer than 250 lines', (t) => {
  const long = files.filter(({ text }) => text.trimEnd().split('\n').length > 250);
  t.deepEqual(pathsOf(long), []);
});

test('no file is a barrel or a drawer', (t) => {
  const drawer = /(^|\/)(index\.[cm]?[jt]s|(utils?|helpers?|lib|common|services?|types)(\.[cm]?[jt]s|\/))/;
  t.regex('shared/utils.ts', drawer);
  t.regex('workers/helpers/a.ts', drawer);
  t.deepEqual(
    projectFiles().filter((path) => drawer.test(path)),
    [],
  );
});

test('the top of the repository is what a reader expects there, and dotfiles', (t) => {
  const top = new Set(projectFiles().map((path) => path.split('/')[0] ?? ''));
  t.deepEqual([...top].filter((name) => !name.startsWith('.')).sort(), [
    'README.md',
    'docker-compose.yml',
    'ingress',
    'package-lock.json',
    'package.json',
    'shared',
    'test',
    'tsconfig.json',
    'workers',
  ]);
});
